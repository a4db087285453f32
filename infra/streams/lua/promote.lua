-- Moves what is due from the delayed set into the retry streams of its groups, by the server's own clock.
--
-- KEYS  1 delayed  2 delayed bodies
-- ARGV  1 the start of the shard's retry keys, `...{n}:retry:` (same hash tag as KEYS)  2 how many at most
-- returns how many were moved
local now = redis.call('TIME')
local now_ms = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_ms, 'LIMIT', 0, ARGV[2])
for _, member in ipairs(due) do
    local body = redis.call('HGET', KEYS[2], member)
    redis.call('ZREM', KEYS[1], member)
    redis.call('HDEL', KEYS[2], member)
    redis.call('XADD', ARGV[1] .. string.match(member, '^([^|]+)|'), '*', unpack(cmsgpack.unpack(body)))
end
return #due
