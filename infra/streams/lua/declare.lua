-- Declares a group on streams of one shard: in the registry, and on each stream where it does not exist.
-- A group that vanished (flush, failover, eviction) comes back at the start of what there is, never at `$`, which would
-- skip events without a trace. Nothing is written when nothing is new; else it removes before it adds, since a log whose
-- memory is full is emptied by groups that begin with this.
--
-- KEYS  1 registry  2.. streams
-- ARGV  1 group  2 kind (`durable`, or `ephemeral:<time to live, ms>`)
-- returns how many streams the group was created on
-- include id_above

local function has_group(stream)
    local groups = redis.pcall('XINFO', 'GROUPS', stream)  -- an error while there is no stream
    for _, info in ipairs(groups.err and {} or groups) do
        if info[2] == ARGV[1] then  -- {'name', name, ...}
            return true
        end
    end
    return false
end

local missing, field = {}, 'group:' .. ARGV[1]
for i = 2, #KEYS do
    if not has_group(KEYS[i]) then
        missing[#missing + 1] = KEYS[i]
    end
end
if #missing == 0 and redis.call('HGET', KEYS[1], field) == ARGV[2] then
    return 0
end
redis.call('HDEL', KEYS[1], field)
redis.call('HSET', KEYS[1], field, ARGV[2], 'alive:' .. ARGV[1], string.format('%.0f', server_ms()))
for _, stream in ipairs(missing) do
    redis.call('XGROUP', 'CREATE', stream, ARGV[1], '0', 'MKSTREAM')
end
return #missing
