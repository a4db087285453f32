-- Declares a group on streams of one shard: in the registry, and on each stream where it does not exist.
-- A group that vanished (flush, failover, eviction) comes back at the start of what there is, never at `$`, which would
-- skip events without a trace.
--
-- KEYS  1 registry  2.. streams
-- ARGV  1 group  2 kind (durable or ephemeral)
-- returns how many streams the group was created on
redis.call('HSET', KEYS[1], 'group:' .. ARGV[1], ARGV[2])
local created = 0
for i = 2, #KEYS do
    local reply = redis.pcall('XGROUP', 'CREATE', KEYS[i], ARGV[1], '0', 'MKSTREAM')
    if not reply.err then
        created = created + 1
    elseif not string.find(reply.err, 'BUSYGROUP', 1, true) then
        return reply
    end
end
return created
