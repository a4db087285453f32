-- The first call for a shard on every connection: which incarnation do numbers belong to?
-- A restart, a failover or a flush gives the server another replication id or takes the ledger away; either may have
-- taken entries too, so a new incarnation begins and numbers start again at 1. Old entries keep their own.
--
-- KEYS  1 ledger  2 registry
-- ARGV  1 the incarnation to begin if one is needed  2 number of shards in the settings
-- returns {'ok', incarnation} | {'shards', number fixed in this log}
-- include incarnation

local fixed = redis.call('HGET', KEYS[2], 'shards')
if fixed and fixed ~= ARGV[2] then
    return {'shards', fixed}
end
if not fixed then
    -- The log is new, or has lost more than we know.
    redis.call('HDEL', KEYS[1], 'incarnation')
    redis.call('HSET', KEYS[2], 'shards', ARGV[2])
end
return {'ok', present_incarnation(KEYS[1], ARGV[1])}
