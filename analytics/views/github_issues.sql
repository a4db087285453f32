-- What happened to issues on GitHub, one row for each change.
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
  -- The repository, as owner/name.
  repository,
  -- What happened: opened, labeled, closed and so on.
  try_variant_get(payload, '$.action', 'string') AS action,
  -- The number of the issue.
  try_variant_get(payload, '$.issue.number', 'bigint') AS number,
  -- Its title then.
  try_variant_get(payload, '$.issue.title', 'string') AS title,
  -- open or closed, after this.
  try_variant_get(payload, '$.issue.state', 'string') AS state,
  -- Who opened it.
  try_variant_get(payload, '$.issue.user.login', 'string') AS author,
  -- Whose account did this.
  try_variant_get(payload, '$.sender.login', 'string') AS sender,
  -- The names of its labels.
  transform(try_variant_get(payload, '$.issue.labels', 'array<variant>'), label -> try_variant_get(label, '$.name', 'string')) AS labels,
  -- How many comments it has.
  try_variant_get(payload, '$.issue.comments', 'bigint') AS comments,
  -- When it was opened.
  try_variant_get(payload, '$.issue.created_at', 'timestamp') AS opened_at,
  -- When it was closed; NULL while it is open.
  try_variant_get(payload, '$.issue.closed_at', 'timestamp') AS closed_at,
  -- Its page.
  try_variant_get(payload, '$.issue.html_url', 'string') AS url
FROM events
WHERE startswith(event_type, 'github.issues.')
