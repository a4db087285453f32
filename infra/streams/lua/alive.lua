-- Says that a worker of the group lives. The server's own idle times cannot be asked: before version 7.2 a consumer that
-- finds nothing to read looks idle. A group that was removed is not brought back by this; removes before it adds.
--
-- KEYS  1 registry
-- ARGV  1 group
-- returns 1, or 0 when the group is not declared
-- include id_above

if redis.call('HEXISTS', KEYS[1], 'group:' .. ARGV[1]) == 0 then
    return 0
end
redis.call('HDEL', KEYS[1], 'alive:' .. ARGV[1])
redis.call('HSET', KEYS[1], 'alive:' .. ARGV[1], string.format('%.0f', server_ms()))
return 1
