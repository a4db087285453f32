-- What happened to products in Shopify shops, one row for each change.
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
  -- What happened: create, update or delete.
  substring(event_type, 18) AS change,
  -- The shop's domain.
  headers['x-shopify-shop-domain'] AS shop,
  -- The product's id.
  try_variant_get(payload, '$.id', 'bigint') AS product_id,
  -- Its title.
  try_variant_get(payload, '$.title', 'string') AS title,
  -- Its name in addresses.
  try_variant_get(payload, '$.handle', 'string') AS handle,
  -- Who makes it.
  try_variant_get(payload, '$.vendor', 'string') AS vendor,
  -- What kind of product it is.
  try_variant_get(payload, '$.product_type', 'string') AS product_type,
  -- active, draft or archived.
  try_variant_get(payload, '$.status', 'string') AS status,
  -- How many variants it has.
  size(try_variant_get(payload, '$.variants', 'array<variant>')) AS variants,
  -- When it last changed.
  try_variant_get(payload, '$.updated_at', 'timestamp') AS updated_at
FROM events
WHERE startswith(event_type, 'shopify.products/')
