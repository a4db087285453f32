-- What happened to pull requests on GitHub, one row for each change.
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
  -- What happened: opened, synchronize, closed and so on.
  try_variant_get(payload, '$.action', 'string') AS action,
  -- The number of the pull request.
  try_variant_get(payload, '$.number', 'bigint') AS number,
  -- Its title then.
  try_variant_get(payload, '$.pull_request.title', 'string') AS title,
  -- open or closed, after this.
  try_variant_get(payload, '$.pull_request.state', 'string') AS state,
  -- Whether it is a draft.
  try_variant_get(payload, '$.pull_request.draft', 'boolean') AS draft,
  -- Whether it is merged; NULL where GitHub does not say.
  try_variant_get(payload, '$.pull_request.merged', 'boolean') AS merged,
  -- Who opened it.
  try_variant_get(payload, '$.pull_request.user.login', 'string') AS author,
  -- Whose account did this.
  try_variant_get(payload, '$.sender.login', 'string') AS sender,
  -- The branch with the changes.
  try_variant_get(payload, '$.pull_request.head.ref', 'string') AS head_ref,
  -- Its newest commit.
  try_variant_get(payload, '$.pull_request.head.sha', 'string') AS head_sha,
  -- The branch that they are for.
  try_variant_get(payload, '$.pull_request.base.ref', 'string') AS base_ref,
  -- Lines added.
  try_variant_get(payload, '$.pull_request.additions', 'bigint') AS additions,
  -- Lines removed.
  try_variant_get(payload, '$.pull_request.deletions', 'bigint') AS deletions,
  -- Files changed.
  try_variant_get(payload, '$.pull_request.changed_files', 'bigint') AS changed_files,
  -- When it was opened.
  try_variant_get(payload, '$.pull_request.created_at', 'timestamp') AS opened_at,
  -- When it was merged; NULL while it is not.
  try_variant_get(payload, '$.pull_request.merged_at', 'timestamp') AS merged_at,
  -- Its page.
  try_variant_get(payload, '$.pull_request.html_url', 'string') AS url
FROM events
WHERE startswith(event_type, 'github.pull_request.')
