-- Keeps one refused request aside, unless its source has as many there already as may be: then it is counted and dropped.
-- XADD is the first of all writes, so that an error or a full memory leaves nothing behind.
--
-- KEYS  1 quarantine  2 ledger
-- ARGV  1 incarnation  2 <tenant>:<source>  3 the most open ones of a source in this shard  4 the most bytes of them
--       5 bytes of this one  6.. fields and values
-- returns {'kept', entry id} | {'dropped'} | {'full'} (the log is above its hard cap) | {'incarnation', the ledger's}
-- include id_above

local whose, size = ARGV[2], tonumber(ARGV[5])
local sequence_field = 'sequence:quarantine:' .. ARGV[1]
local known = redis.call(
    'HMGET', KEYS[2], 'incarnation', 'full', sequence_field, 'quarantined:' .. whose, 'decided:' .. whose, 'quarantine_bytes:' .. whose
)
if known[1] ~= ARGV[1] then
    return {'incarnation', known[1] or ''}
end
if known[2] and tonumber(known[2]) > server_ms() then
    return {'full'}
end
local open = (tonumber(known[4]) or 0) - (tonumber(known[5]) or 0)
if open >= tonumber(ARGV[3]) or (tonumber(known[6]) or 0) + size > tonumber(ARGV[4]) then
    redis.call('HINCRBY', KEYS[2], 'unkept:' .. whose, 1)
    return {'dropped'}
end
local number = string.format('%.0f', (tonumber(known[3]) or 0) + 1)
local entry = {'XADD', KEYS[1], '*', 'record', 'request', 'incarnation', ARGV[1], 'sequence', number, 'size', ARGV[5]}
for i = 6, #ARGV do
    entry[#entry + 1] = ARGV[i]
end
local entry_id = redis.call(unpack(entry))
redis.call('HSET', KEYS[2], sequence_field, number)
redis.call('HINCRBY', KEYS[2], 'quarantined:' .. whose, 1)
redis.call('HINCRBY', KEYS[2], 'quarantine_bytes:' .. whose, size)
return {'kept', entry_id}
