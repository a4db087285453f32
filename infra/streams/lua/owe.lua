-- Writes down that a group is owed archived events which the log has lost beneath it; once, however often it is said.
-- The note that it was said goes with the ledger: a log that is wiped again has forgotten what was owed, too.
--
-- KEYS  1 what the group is owed  2 ledger
-- ARGV  1 group  2 field of what is owed  3 its value  4 how many events that is
-- returns 1 when it is owed now | 0 when that was said before
local said = 'said:' .. ARGV[1] .. ':' .. ARGV[2]
if redis.call('HEXISTS', KEYS[2], said) == 1 then  -- without a write: a start says it again, also where memory is full
    return 0
end
redis.call('HSET', KEYS[2], said, 1)
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('HINCRBY', KEYS[2], 'owed:' .. ARGV[1], ARGV[4])
return 1
