-- Records that an accepted event is the same delivery as an earlier one: whoever was given its id finds the event under the first id.
-- A record that is written again says the same again.
--
-- KEYS  1 ledger  2 outcomes
-- ARGV  1 event id  2 the first one's id  3 tenant  4 source
-- returns the entry id of the record
local incarnation = redis.call('HGET', KEYS[1], 'incarnation') or ''
local number = redis.call('HINCRBY', KEYS[1], 'sequence:outcomes:' .. incarnation, 1)
return redis.call('XADD', KEYS[2], '*', 'record', 'alias', 'event_id', ARGV[1], 'first_id', ARGV[2],
    'tenant_id', ARGV[3], 'source', ARGV[4], 'incarnation', incarnation, 'sequence', number)
