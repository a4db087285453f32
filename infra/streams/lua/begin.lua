-- The first call for a shard on every connection: which incarnation do numbers belong to?
-- A restart, a failover or a flush gives the server another replication id or takes the ledger away; either may have
-- taken entries too, so a new incarnation begins and numbers start again at 1. Old entries keep their own.
--
-- KEYS  1 ledger  2 registry
-- ARGV  1 the incarnation to begin if one is needed  2 number of shards in the settings
-- returns {'ok', incarnation} | {'shards', number fixed in this log}
local fixed = redis.call('HGET', KEYS[2], 'shards')
if fixed and fixed ~= ARGV[2] then
    return {'shards', fixed}
end
local replication_id = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local known = redis.call('HMGET', KEYS[1], 'replication_id', 'incarnation')
if known[1] == replication_id and known[2] and fixed then
    return {'ok', known[2]}
end
-- Removes before it adds: a log that was restarted with its memory full must let the archive begin, or it stays full.
redis.call('HDEL', KEYS[1], 'replication_id', 'incarnation')
redis.call('HSET', KEYS[1], 'replication_id', replication_id, 'incarnation', ARGV[1])
redis.call('HSET', KEYS[2], 'shards', ARGV[2])
return {'ok', ARGV[1]}
