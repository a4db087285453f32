-- Everything that Slack's Events API sent, by what all events have.
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
  -- What happened, such as app_mention.
  try_variant_get(payload, '$.event.type', 'string') AS type,
  -- Slack's own id of the event.
  try_variant_get(payload, '$.event_id', 'string') AS slack_id,
  -- The workspace.
  try_variant_get(payload, '$.team_id', 'string') AS team,
  -- The app that it was sent to.
  try_variant_get(payload, '$.api_app_id', 'string') AS app,
  -- Who did it, where somebody did.
  try_variant_get(payload, '$.event.user', 'string') AS user_id,
  -- Where, if in a channel.
  try_variant_get(payload, '$.event.channel', 'string') AS channel,
  -- When it happened, in seconds since 1970.
  try_variant_get(payload, '$.event_time', 'bigint') AS event_time_s,
  -- Which retry of Slack's it is; NULL for the first delivery.
  try_cast(headers['x-slack-retry-num'] AS INT) AS retry
FROM events
WHERE auth_context.scheme = 'slack' AND try_variant_get(payload, '$.type', 'string') = 'event_callback'
