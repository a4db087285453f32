-- Erases entries of a stream that belongs to one group: its retries, what it has parked, what is replayed to it. A worker that has one
-- in hand finds its lease lost.
--
-- KEYS  1 stream
-- ARGV  entry ids
-- returns how many entries went
-- include standing
if redis.call('EXISTS', KEYS[1]) == 0 then
    return 0
end
for _, group in ipairs(groups_on(KEYS[1])) do
    redis.call('XACK', KEYS[1], group.name, unpack(ARGV))
end
return redis.call('XDEL', KEYS[1], unpack(ARGV))
