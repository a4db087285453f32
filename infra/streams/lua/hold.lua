-- Holds a shard for one consumer of a group whose events keep their order, or lets it go. Only the holder reads the shard.
--
-- KEYS  1 lease of the shard
-- ARGV  1 consumer  2 milliseconds to hold it for, or 0 to let it go
-- returns 1 when the consumer holds it now (or held it, when it lets go), else 0
local holder = redis.call('GET', KEYS[1])
if ARGV[2] == '0' then
    return holder == ARGV[1] and redis.call('DEL', KEYS[1]) or 0
end
if holder and holder ~= ARGV[1] then
    return 0
end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
