-- Everything that Stripe sent, one row for each event, by what all of them have.
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
  -- What happened, such as invoice.paid.
  try_variant_get(payload, '$.type', 'string') AS type,
  -- The version of Stripe's API that the payload is written in.
  try_variant_get(payload, '$.api_version', 'string') AS api_version,
  -- False for events of a test account.
  try_variant_get(payload, '$.livemode', 'boolean') AS livemode,
  -- When it happened, in seconds since 1970.
  try_variant_get(payload, '$.created', 'bigint') AS created_s,
  -- The connected account; NULL for your own.
  try_variant_get(payload, '$.account', 'string') AS account,
  -- What it happened to: invoice, charge, customer and so on.
  try_variant_get(payload, '$.data.object.object', 'string') AS object,
  -- The id of that.
  try_variant_get(payload, '$.data.object.id', 'string') AS object_id,
  -- The customer's id, where the object has one.
  try_variant_get(payload, '$.data.object.customer', 'string') AS customer,
  -- The object's status, where it has one.
  try_variant_get(payload, '$.data.object.status', 'string') AS status,
  -- The currency, in lower case, where there is one.
  try_variant_get(payload, '$.data.object.currency', 'string') AS currency
FROM events
WHERE startswith(event_type, 'stripe.')
