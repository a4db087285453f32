-- Writes down that a refused request is about to be released, before its event is appended: from then on it cannot be discarded, since
-- its event may be on the log, which is in another slot and cannot be looked at in the same call. It stays open until `decide_quarantined`
-- says that it was released; whoever dies in between is repeated, and begins it once more.
--
-- KEYS  1 quarantine  2 quarantine state  3 ledger
-- ARGV  1 entry id of the request  2 who
-- returns 'begun' | 'already' (released before) | 'discarded' | 'gone'
-- include state_record

local entry = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
if not entry or entry[2][1] ~= 'record' or entry[2][2] ~= 'request' then
    return 'gone'
end
local before = decided_before('released')
if before then
    return before
end
redis.call('HSET', KEYS[2], 'releasing:' .. ARGV[1], ARGV[2])
return 'begun'
