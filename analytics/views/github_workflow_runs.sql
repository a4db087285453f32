-- Runs of GitHub Actions workflows, one row for each change of a run.
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
  -- requested, in_progress or completed.
  try_variant_get(payload, '$.action', 'string') AS action,
  -- The run, the same over its changes.
  try_variant_get(payload, '$.workflow_run.id', 'bigint') AS run_id,
  -- The name of the workflow.
  try_variant_get(payload, '$.workflow_run.name', 'string') AS name,
  -- Which attempt of the run it is.
  try_variant_get(payload, '$.workflow_run.run_attempt', 'bigint') AS attempt,
  -- What started it, such as push.
  try_variant_get(payload, '$.workflow_run.event', 'string') AS trigger,
  -- queued, in_progress or completed.
  try_variant_get(payload, '$.workflow_run.status', 'string') AS status,
  -- success, failure and so on; NULL before it is completed.
  try_variant_get(payload, '$.workflow_run.conclusion', 'string') AS conclusion,
  -- The branch it runs on.
  try_variant_get(payload, '$.workflow_run.head_branch', 'string') AS branch,
  -- The commit it runs on.
  try_variant_get(payload, '$.workflow_run.head_sha', 'string') AS sha,
  -- When this attempt began.
  try_variant_get(payload, '$.workflow_run.run_started_at', 'timestamp') AS started_at,
  -- When it last changed; with started_at, how long a completed one took.
  try_variant_get(payload, '$.workflow_run.updated_at', 'timestamp') AS updated_at,
  -- Its page.
  try_variant_get(payload, '$.workflow_run.html_url', 'string') AS url
FROM events
WHERE startswith(event_type, 'github.workflow_run.')
