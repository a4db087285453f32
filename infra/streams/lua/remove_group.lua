-- Removes a group from one shard with all its keys, or counts what would be lost by that. Never while it lives: while a
-- worker said so, or a consumer did anything, within the least idle time.
--
-- KEYS  1 registry  2 delayed  3 delayed bodies  4 lease of the group  5 its retry stream  6 its replay stream  7-10 event streams
--       11 its parked stream  12 the names of what it wrote through `delivery.once`
--       13 what it is owed  14 ledger  15 names of what it lost  16 its replays
--       17 its members (shard 0 only)
-- ARGV  1 group  2 count | remove | reap (only an ephemeral group, idle for its own time to live)  3 least idle ms
-- returns {'counted' | 'removed' | 'alive' | 'durable' (not reaped) | 'unknown' (there is no such group),
--          idle ms or -1, pending, not yet delivered or -1 when the server cannot tell, retries that wait,
--          parked entries, events that it is owed, what it wrote through `delivery.once`, each as `<kind>:<name>`}
-- include id_above

local group, act, least_idle_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

local function value(list, name)
    for j = 1, #list, 2 do
        if list[j] == name then
            return list[j + 1]
        end
    end
end

local kind = redis.call('HGET', KEYS[1], 'group:' .. group)
if act == 'reap' then
    least_idle_ms = tonumber(string.match(kind or '', '^ephemeral:(%d+)$'))
    if not least_idle_ms then
        return {'durable', -1, 0, 0, 0, 0, 0, {}}
    end
end

local streams, pending, undelivered, idle_ms = {}, 0, 0, -1
local function seen_ago(ms)
    idle_ms = idle_ms < 0 and ms or math.min(idle_ms, ms)
end
local alive_ms = redis.call('HGET', KEYS[1], 'alive:' .. group)
if alive_ms then
    seen_ago(math.max(0, server_ms() - tonumber(alive_ms)))
end
for i = 5, 10 do
    local groups = redis.pcall('XINFO', 'GROUPS', KEYS[i])  -- an error while there is no stream
    for _, info in ipairs(groups.err and {} or groups) do
        if value(info, 'name') == group then
            streams[#streams + 1] = KEYS[i]
            pending = pending + value(info, 'pending')
            local lag = value(info, 'lag')
            undelivered = undelivered >= 0 and lag and undelivered + lag or -1
            for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[i], group)) do
                seen_ago(value(consumer, 'idle'))
            end
        end
    end
end
local waiting = {}
for _, member in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    if string.sub(member, 1, #group + 1) == group .. '|' then
        waiting[#waiting + 1] = member
    end
end

local parked, written = redis.call('XLEN', KEYS[11]), redis.call('SMEMBERS', KEYS[12])
local owed = tonumber(redis.call('HGET', KEYS[14], 'owed:' .. group) or '0')
local function answer(status)
    return {status, idle_ms, pending, undelivered, #waiting, parked, owed, written}
end

if not kind and #streams == 0 and #waiting == 0 and redis.call('EXISTS', KEYS[5], KEYS[6], KEYS[11], KEYS[12], KEYS[13], KEYS[16]) == 0 then
    return answer('unknown')
elseif idle_ms >= 0 and idle_ms < least_idle_ms then
    return answer('alive')
elseif act == 'count' then
    return answer('counted')
end
-- Made anew, the group would begin with what the log has, and count again what it had counted. Each key by itself, and the
-- names last: while a cluster moves the slot some may be on another node, and the next call has to find them.
for _, name in ipairs(written) do
    redis.call('UNLINK', KEYS[12] .. ':' .. name)
end
redis.call('DEL', KEYS[12])
for _, stream in ipairs(streams) do
    redis.call('XGROUP', 'DESTROY', stream, group)
end
for _, member in ipairs(waiting) do
    redis.call('ZREM', KEYS[2], member)
    redis.call('HDEL', KEYS[3], member)
end
redis.call('DEL', KEYS[4], KEYS[5], KEYS[6], KEYS[11], KEYS[13], KEYS[15], KEYS[16])
redis.call('HDEL', KEYS[14], 'owed:' .. group)
if KEYS[17] then
    redis.call('DEL', KEYS[17])
end
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, #group + 4) == 'at:' .. group .. ':' or string.sub(field, 1, #group + 6) == 'made:' .. group .. ':' then
        redis.call('HDEL', KEYS[1], field)
    end
end
redis.call('HDEL', KEYS[1], 'group:' .. group, 'alive:' .. group)
return answer('removed')
