-- What happened to orders in Shopify shops, one row for each change.
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
  -- What happened, such as create or paid.
  substring(event_type, 16) AS change,
  -- The shop's domain.
  headers['x-shopify-shop-domain'] AS shop,
  -- The order's id.
  try_variant_get(payload, '$.id', 'bigint') AS order_id,
  -- Its name, such as #1001.
  try_variant_get(payload, '$.name', 'string') AS name,
  -- The customer's address.
  try_variant_get(payload, '$.email', 'string') AS email,
  -- The customer's id.
  try_variant_get(payload, '$.customer.id', 'bigint') AS customer_id,
  -- The shop's currency.
  try_variant_get(payload, '$.currency', 'string') AS currency,
  -- What the order costs.
  try_variant_get(payload, '$.total_price', 'decimal(18,2)') AS total_price,
  -- The same before shipping and taxes.
  try_variant_get(payload, '$.subtotal_price', 'decimal(18,2)') AS subtotal_price,
  -- The taxes.
  try_variant_get(payload, '$.total_tax', 'decimal(18,2)') AS total_tax,
  -- pending, paid, refunded and so on.
  try_variant_get(payload, '$.financial_status', 'string') AS financial_status,
  -- fulfilled, partial, or NULL for nothing yet.
  try_variant_get(payload, '$.fulfillment_status', 'string') AS fulfillment_status,
  -- How many lines it has.
  size(try_variant_get(payload, '$.line_items', 'array<variant>')) AS line_items,
  -- When it was placed.
  try_variant_get(payload, '$.created_at', 'timestamp') AS ordered_at,
  -- When it was cancelled; NULL while it is not.
  try_variant_get(payload, '$.cancelled_at', 'timestamp') AS cancelled_at
FROM events
WHERE startswith(event_type, 'shopify.orders/')
