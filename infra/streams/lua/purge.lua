-- Drops everything that waits for a group in one shard, or counts it: entries in work, entries not yet delivered, waiting retries,
-- parked entries and what it is owed. The group stays and stands at the end of its streams; other groups and the entries
-- themselves are not touched, and a worker that has an entry in hand finds its lease lost. A record says who did it and how much went.
--
-- KEYS  1 registry  2 ledger  3 delayed  4 delayed bodies  5 what it is owed  6 its parked stream  7 audit
--       8 its retry stream  9 its replay stream  10.. event streams
-- ARGV  1 group  2 count | purge  3 who  4 a name for this purge, the same on all shards
-- returns {'counted' | 'purged' | 'unknown' (there is no such group),
--          in work, not yet delivered or -1 when the server cannot tell, waiting retries, parked, owed}
-- include standing

local group, act = ARGV[1], ARGV[2]
local streams, pending, undelivered = {}, 0, 0
for i = 8, #KEYS do
    for _, one in ipairs(redis.call('EXISTS', KEYS[i]) == 1 and groups_on(KEYS[i]) or {}) do
        if one.name == group then
            streams[#streams + 1] = KEYS[i]
            pending = pending + one.pending
            undelivered = undelivered >= 0 and one.lag and undelivered + one.lag or -1
        end
    end
end
local waiting = {}
for _, member in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    if string.sub(member, 1, #group + 1) == group .. '|' then
        waiting[#waiting + 1] = member
    end
end
local parked, owed = redis.call('XLEN', KEYS[6]), tonumber(redis.call('HGET', KEYS[2], 'owed:' .. group) or '0')

local function answer(status)
    return {status, pending, undelivered, #waiting, parked, owed}
end

if #streams == 0 and redis.call('HEXISTS', KEYS[1], 'group:' .. group) == 0 then
    return answer('unknown')
elseif act == 'count' then
    return answer('counted')
end

local function ack_all(stream)
    repeat
        local ids = {}
        for i, entry in ipairs(redis.call('XPENDING', stream, group, '-', '+', 1000)) do
            ids[i] = entry[1]
        end
        if #ids > 0 then
            redis.call('XACK', stream, group, unpack(ids))
        end
    until #ids < 1000
end

-- Where it stood is no longer true; whoever trims notes it anew. First of all, since it removes: the record may meet a full memory.
redis.call('HDEL', KEYS[2], 'owed:' .. group)
for _, stream in ipairs(streams) do
    redis.call('HDEL', KEYS[1], 'at:' .. group .. ':' .. string.match(stream, '%a+$'))
    ack_all(stream)
    local info = redis.call('XINFO', 'STREAM', stream)
    local added = string.format('%.0f', value(info, 'entries-added'))
    redis.call('XGROUP', 'SETID', stream, group, value(info, 'last-generated-id'), 'ENTRIESREAD', added)
    if stream == KEYS[8] or stream == KEYS[9] then
        redis.call('XTRIM', stream, 'MAXLEN', '=', 0)
    end
end
for _, member in ipairs(waiting) do
    redis.call('ZREM', KEYS[3], member)
    redis.call('HDEL', KEYS[4], member)
end
redis.call('DEL', KEYS[5], KEYS[6])
redis.call(
    'XADD', KEYS[7], '*', 'act', 'purge', 'group', group, 'by', ARGV[3], 'name', ARGV[4], 'pending', pending,
    'undelivered', undelivered, 'waiting', #waiting, 'parked', parked, 'owed', owed
)
return answer('purged')
