-- Slash commands of Slack, which come as forms: their fields are read from the body.
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
  -- The command, with its slash.
  try_url_decode(try_parse_url(form, 'QUERY', 'command')) AS command,
  -- What was written after it.
  try_url_decode(try_parse_url(form, 'QUERY', 'text')) AS text,
  -- Who gave it, as an id.
  try_url_decode(try_parse_url(form, 'QUERY', 'user_id')) AS user_id,
  -- The same as a name.
  try_url_decode(try_parse_url(form, 'QUERY', 'user_name')) AS user_name,
  -- The channel's id.
  try_url_decode(try_parse_url(form, 'QUERY', 'channel_id')) AS channel,
  -- The channel's name.
  try_url_decode(try_parse_url(form, 'QUERY', 'channel_name')) AS channel_name,
  -- The workspace's id.
  try_url_decode(try_parse_url(form, 'QUERY', 'team_id')) AS team,
  -- The workspace's name.
  try_url_decode(try_parse_url(form, 'QUERY', 'team_domain')) AS team_domain
FROM (
  SELECT *, concat('http://form/?', CAST(body AS STRING)) AS form
  FROM events
  WHERE auth_context.scheme = 'slack' AND startswith(content_type, 'application/x-www-form-urlencoded')
)
WHERE try_parse_url(form, 'QUERY', 'command') IS NOT NULL
