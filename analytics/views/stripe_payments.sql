-- What happened to payment intents and charges at Stripe. Amounts are in the currency's smallest unit.
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
  -- What happened, such as charge.refunded.
  try_variant_get(payload, '$.type', 'string') AS type,
  -- payment_intent, charge, refund or dispute.
  try_variant_get(payload, '$.data.object.object', 'string') AS object,
  -- The id of that.
  try_variant_get(payload, '$.data.object.id', 'string') AS object_id,
  -- The payment intent that a charge belongs to.
  try_variant_get(payload, '$.data.object.payment_intent', 'string') AS payment_intent,
  -- The customer's id.
  try_variant_get(payload, '$.data.object.customer', 'string') AS customer,
  -- The status after this.
  try_variant_get(payload, '$.data.object.status', 'string') AS status,
  -- The currency, in lower case.
  try_variant_get(payload, '$.data.object.currency', 'string') AS currency,
  -- What was asked for.
  try_variant_get(payload, '$.data.object.amount', 'bigint') AS amount,
  -- What was given back, of a charge.
  try_variant_get(payload, '$.data.object.amount_refunded', 'bigint') AS amount_refunded,
  -- Why a charge failed.
  try_variant_get(payload, '$.data.object.failure_code', 'string') AS failure_code,
  -- False for events of a test account.
  try_variant_get(payload, '$.livemode', 'boolean') AS livemode
FROM events
WHERE startswith(event_type, 'stripe.payment_intent.') OR startswith(event_type, 'stripe.charge.')
