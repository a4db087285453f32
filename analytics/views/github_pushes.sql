-- Pushes to GitHub repositories, one row for each push.
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
  -- The full name of the branch or tag, such as refs/heads/main.
  try_variant_get(payload, '$.ref', 'string') AS ref,
  -- The commit that the ref stood at before.
  try_variant_get(payload, '$.before', 'string') AS before,
  -- The commit that it stands at now.
  try_variant_get(payload, '$.after', 'string') AS after,
  -- Whether the push made the ref.
  try_variant_get(payload, '$.created', 'boolean') AS created,
  -- Whether it removed the ref.
  try_variant_get(payload, '$.deleted', 'boolean') AS deleted,
  -- Whether it rewrote history.
  try_variant_get(payload, '$.forced', 'boolean') AS forced,
  -- Who pushed.
  try_variant_get(payload, '$.pusher.name', 'string') AS pusher,
  -- Whose account did it.
  try_variant_get(payload, '$.sender.login', 'string') AS sender,
  -- How many commits the payload lists; GitHub lists at most 2048.
  size(try_variant_get(payload, '$.commits', 'array<variant>')) AS commits,
  -- The message of the newest commit.
  try_variant_get(payload, '$.head_commit.message', 'string') AS message,
  -- The page that compares before and after.
  try_variant_get(payload, '$.compare', 'string') AS url
FROM events
WHERE event_type = 'github.push'
