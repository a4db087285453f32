-- Hands archived events to one group, in their order, and writes down how far that has come: both or neither, so that whoever goes on
-- after a kill hands nothing twice and leaves nothing out. Refused where somebody else has gone on meanwhile, and where too much
-- waits for the group already.
--
-- KEYS  1 replay stream of the group  2 its replays  3 its retry stream  4 ledger  5 registry
-- ARGV  1 group  2 replay  3 how far it has come, as the caller knows it  4 how many entries may wait on the stream  5 how many bytes
--       6 `end` when nothing follows these in this shard, else empty
--       7.. the events, each: its place in the replay, the entry id it had, the values of the fields that every event has (packed, each
--       behind its length), how many texts follow, further fields and values
-- returns {'appended', how far it has come, how many}  as many as there is room for, in their order
--         {'moved', how far it has come}    the caller looks what of its events is left
--         {'full', how far it has come}     nothing fits before some is settled, or the log takes nothing at all
--         {'gone', ''}                      there is no such group, or no such replay any more
-- include id_above
-- include continued

local group, field = ARGV[1], 'at:' .. ARGV[2]
local progress = redis.call('HGET', KEYS[2], field)
if not progress or redis.call('HEXISTS', KEYS[5], 'group:' .. group) == 0 then
    return {'gone', ''}
end
if progress ~= ARGV[3] then
    return {'moved', progress}
end

local now_ms, appended, failure = server_ms(), 0, nil
local room = room_on(KEYS[1], KEYS[4], tonumber(ARGV[4]), tonumber(ARGV[5]), now_ms)
if room <= 0 and #ARGV > 6 then
    return {'full', progress}
end
local at, last_place, least = 7, nil, newest_id(KEYS[3])
local packed = '<' .. string.rep('I4c0', 16)
while at <= #ARGV and appended < room and not failure do
    local to = at + 3 + tonumber(ARGV[at + 3])
    -- A local for each: this is done for every event of a history, and a table would cost more. A test holds the names against `encode`.
    local version, id, tenant_id, source, event_type, repository, delivery_id, key, priority, timestamp, payload, body_sha256,
        content_type, headers, auth_context, traceparent = struct.unpack(packed, ARGV[at + 2])
    failure = continue_entry(
        KEYS[1], later_of(ARGV[at + 1], least), now_ms,
        'version', version, 'id', id, 'tenant_id', tenant_id, 'source', source, 'event_type', event_type, 'repository', repository,
        'delivery_id', delivery_id, 'key', key, 'priority', priority, 'timestamp', timestamp, 'payload', payload,
        'body_sha256', body_sha256, 'content_type', content_type, 'headers', headers, 'auth_context', auth_context,
        'traceparent', traceparent, 'replay', ARGV[2], unpack(ARGV, at + 4, to)
    )
    if not failure then
        appended, last_place, at = appended + 1, ARGV[at], to + 1
    end
end
if failure and appended == 0 then
    return failure
end
local count = tonumber(string.match(progress, '^%d+')) + appended
local is_end = ARGV[6] == 'end' and at > #ARGV
progress = string.format('%.0f|', count) .. (is_end and 'end' or last_place or string.match(progress, '|(.*)$'))
redis.call('HSET', KEYS[2], field, progress)
return {'appended', progress, appended}
