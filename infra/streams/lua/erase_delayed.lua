-- Erases retries and scheduled events that wait for their time. A scheduled event was accepted and has no row yet: it is counted as erased.
--
-- KEYS  1 delayed  2 delayed bodies  3 ledger
-- ARGV  members
-- returns how many went
local erased = 0
for _, member in ipairs(ARGV) do
    redis.call('HDEL', KEYS[2], member)
    if redis.call('ZREM', KEYS[1], member) == 1 then
        erased = erased + 1
        local owner = string.match(member, '^|[^|]+|([^|]+)|%x+$')
        if owner then
            redis.call('HINCRBY', KEYS[3], 'scheduled:' .. owner, -1)
            redis.call('HINCRBY', KEYS[3], 'erased_scheduled:' .. owner, 1)
        end
    end
end
return erased
