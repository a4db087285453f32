-- Sends one dead letter back to its group, once: a second requeue finds the state and does nothing.
-- The dead letter itself stays; a state record says what became of it.
--
-- KEYS  1 dead  2 dead state  3 ledger
-- ARGV  1 entry id of the dead letter  2 the start of the shard's retry keys (same hash tag)
-- returns 'requeued' | 'already' | 'gone'
local entry = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
if not entry then
    return 'gone'
end
if redis.call('HGET', KEYS[2], ARGV[1]) then
    return 'already'
end
local own = {record = true, group = true, from = true, from_entry = true, incarnation = true, sequence = true, processor = true,
             reason = true, error = true, traceback = true, attempts = true, dead_at = true}
local fields, group = {}, ''
for i = 1, #entry[2], 2 do
    if entry[2][i] == 'group' and group == '' then
        group = entry[2][i + 1]
    elseif not own[entry[2][i]] then
        fields[#fields + 1] = entry[2][i]
        fields[#fields + 1] = entry[2][i + 1]
    end
end
redis.call('XADD', ARGV[2] .. group, '*', unpack(fields))
redis.call('HSET', KEYS[2], ARGV[1], 'requeued')
local incarnation = redis.call('HGET', KEYS[3], 'incarnation') or ''
local number = redis.call('HINCRBY', KEYS[3], 'sequence:dead:' .. incarnation, 1)
redis.call('XADD', KEYS[1], '*', 'record', 'state', 'group', group, 'of', ARGV[1], 'state', 'requeued', 'incarnation', incarnation, 'sequence', number)
return 'requeued'
