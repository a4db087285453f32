-- What happened to invoices at Stripe, one row for each change. Amounts are in the currency's smallest unit.
SELECT
  -- The event's id; `events` has all of it.
  id,
  -- Whose event it is.
  tenant_id,
  -- The configured sender it came from.
  source,
  -- When the receiver had the whole request.
  received_at,
  -- The UTC date of received_at; put it into every WHERE.
  received_date,
  -- Stripe's own id of the event.
  try_variant_get(payload, '$.id', 'string') AS stripe_id,
  -- What happened, such as paid.
  substring(event_type, 16) AS change,
  -- The invoice's id.
  try_variant_get(payload, '$.data.object.id', 'string') AS invoice,
  -- Its number, as the customer sees it.
  try_variant_get(payload, '$.data.object.number', 'string') AS number,
  -- The customer's id.
  try_variant_get(payload, '$.data.object.customer', 'string') AS customer,
  -- The customer's address.
  try_variant_get(payload, '$.data.object.customer_email', 'string') AS customer_email,
  -- draft, open, paid, uncollectible or void.
  try_variant_get(payload, '$.data.object.status', 'string') AS status,
  -- The currency, in lower case.
  try_variant_get(payload, '$.data.object.currency', 'string') AS currency,
  -- What is due.
  try_variant_get(payload, '$.data.object.amount_due', 'bigint') AS amount_due,
  -- What is paid.
  try_variant_get(payload, '$.data.object.amount_paid', 'bigint') AS amount_paid,
  -- What is left to pay.
  try_variant_get(payload, '$.data.object.amount_remaining', 'bigint') AS amount_remaining,
  -- How often payment was tried.
  try_variant_get(payload, '$.data.object.attempt_count', 'bigint') AS attempts,
  -- False for events of a test account.
  try_variant_get(payload, '$.livemode', 'boolean') AS livemode
FROM events
WHERE startswith(event_type, 'stripe.invoice.')
