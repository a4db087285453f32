-- Messages in Slack channels, one row for each; edits and deletions are rows of their own.
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
  -- The workspace.
  try_variant_get(payload, '$.team_id', 'string') AS team,
  -- The channel's id.
  try_variant_get(payload, '$.event.channel', 'string') AS channel,
  -- channel, group, im or mpim.
  try_variant_get(payload, '$.event.channel_type', 'string') AS channel_type,
  -- Who wrote it; NULL for some subtypes.
  try_variant_get(payload, '$.event.user', 'string') AS user_id,
  -- The bot that wrote it, if one did.
  try_variant_get(payload, '$.event.bot_id', 'string') AS bot,
  -- message_changed, message_deleted and so on; NULL for a plain message.
  try_variant_get(payload, '$.event.subtype', 'string') AS subtype,
  -- The text.
  try_variant_get(payload, '$.event.text', 'string') AS text,
  -- Slack's name of the message within its channel: seconds since 1970, as text.
  try_variant_get(payload, '$.event.ts', 'string') AS ts,
  -- The ts of the message that began its thread.
  try_variant_get(payload, '$.event.thread_ts', 'string') AS thread_ts
FROM events
WHERE event_type = 'slack.message'
