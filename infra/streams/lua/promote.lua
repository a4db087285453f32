-- Moves what is due from the delayed set into the retry streams of its groups, by the server's own clock.
-- Removes before it adds, so that it works when memory is full. A retry whose body is gone cannot be made again: it is
-- counted as lost, and does not hold up the others.
--
-- KEYS  1 delayed  2 delayed bodies  3 ledger
-- ARGV  1 the start of the shard's retry keys, `...{n}:retry:` (same hash tag as KEYS)  2 how many at most
-- returns how many were moved
-- include id_above

local now_ms = server_ms()
local moved = 0
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now_ms), 'LIMIT', 0, ARGV[2])) do
    local group, origin = string.match(member, '^([^|]+)|.*|([^|]+)$')
    -- Unpacked before anything is removed: settle never packs more fields than can be passed on.
    local is_body, fields = pcall(cmsgpack.unpack, redis.call('HGET', KEYS[2], member))
    redis.call('ZREM', KEYS[1], member)
    redis.call('HDEL', KEYS[2], member)
    if is_body and type(fields) == 'table' then
        local stream = ARGV[1] .. group
        redis.call('XADD', stream, id_above(stream, origin, now_ms), unpack(fields))
        moved = moved + 1
    else
        redis.call('HINCRBY', KEYS[3], 'lost:' .. group, 1)
    end
end
return moved
