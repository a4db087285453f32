-- The lines of Shopify orders, one row for each line at each change of its order.
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
  -- What happened to the order, such as create or paid.
  substring(event_type, 16) AS change,
  -- The order's id.
  try_variant_get(payload, '$.id', 'bigint') AS order_id,
  -- The line's id.
  try_variant_get(line, '$.id', 'bigint') AS line_id,
  -- The product's id.
  try_variant_get(line, '$.product_id', 'bigint') AS product_id,
  -- The shop's own number of what was ordered.
  try_variant_get(line, '$.sku', 'string') AS sku,
  -- What it is called.
  try_variant_get(line, '$.title', 'string') AS title,
  -- How many of it.
  try_variant_get(line, '$.quantity', 'bigint') AS quantity,
  -- What one of it costs.
  try_variant_get(line, '$.price', 'decimal(18,2)') AS price
FROM events
LATERAL VIEW explode(try_variant_get(payload, '$.line_items', 'array<variant>')) lines AS line
WHERE startswith(event_type, 'shopify.orders/')
