-- Writes down what a person decided about a refused request that was kept aside, once. The request stays; a state record says what
-- became of it, and who decided so. A released one is on the log before this is said of it, under an event id that was given to it
-- when it was refused: a release that dies in between is repeated, and finds its event there. So what a release was begun of
-- (`begin_release`) may be on the log, and is not discarded any more.
--
-- KEYS  1 quarantine  2 quarantine state  3 ledger
-- ARGV  1 entry id of the request  2 who  3 `released` or `discarded`  4 why  5 event id, of a released one
-- returns the state | 'already' | the other state (decided before, so nothing was done) | 'releasing' (not discarded) | 'gone'
-- include state_record

local entry = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
local found = {}
for i = 1, entry and #entry[2] or 0, 2 do
    found[entry[2][i]] = entry[2][i + 1]
end
if found['record'] ~= 'request' then
    return 'gone'
end
local before = decided_before(ARGV[3])
if before then
    return before
end
local releasing = 'releasing:' .. ARGV[1]
if ARGV[3] == 'discarded' and redis.call('HEXISTS', KEYS[2], releasing) == 1 then
    return 'releasing'
end
record_state('quarantine', {'tenant_id', found['tenant_id'], 'source', found['source'], 'because', ARGV[4], 'event_id', ARGV[5]}, ARGV[3])
local whose = found['tenant_id'] .. ':' .. found['source']
redis.call('HINCRBY', KEYS[3], 'decided:' .. whose, 1)
redis.call('HINCRBY', KEYS[3], 'quarantine_bytes:' .. whose, -tonumber(found['size']))
redis.call('HDEL', KEYS[2], releasing)
return ARGV[3]
