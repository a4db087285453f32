-- Says that a consumer of a group is there, or has left, and counts those who are: shards are divided among them.
--
-- KEYS  1 members of the group
-- ARGV  1 consumer  2 milliseconds for which it counts, or 0 when it leaves
-- returns how many are there
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now_ms))
redis.call('ZREM', KEYS[1], ARGV[1])
if ARGV[2] ~= '0' then
    redis.call('ZADD', KEYS[1], string.format('%.0f', now_ms + tonumber(ARGV[2])), ARGV[1])
end
return redis.call('ZCARD', KEYS[1])
