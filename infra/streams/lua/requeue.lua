-- Sends one dead letter back to its group, once: a second requeue finds the state and does nothing.
-- The dead letter itself stays; a state record says what became of it.
--
-- KEYS  1 dead  2 dead state  3 ledger
-- ARGV  1 entry id of the dead letter  2 the start of the shard's retry keys (same hash tag)  3.. names of a letter's own fields
-- returns 'requeued' | 'already' | 'gone' (the letter is, or the event was when the letter was written)
-- include id_above

local entry = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
if not entry then
    return 'gone'
end
if redis.call('HGET', KEYS[2], ARGV[1]) then
    return 'already'
end
local own = {}
for i = 3, #ARGV do
    own[ARGV[i]] = true
end
local fields, group, origin = {}, nil, ''
for i = 1, #entry[2], 2 do
    local name, value = entry[2][i], entry[2][i + 1]
    if name == 'group' then
        group = value
    elseif name == 'from_entry' then
        origin = value
    elseif not own[name] then
        -- settle puts this prefix before fields of the entry that are called like the letter's own.
        fields[#fields + 1] = string.sub(name, 1, 5) == 'kept:' and string.sub(name, 6) or name
        fields[#fields + 1] = value
    end
end
if #fields == 0 or not group then
    return 'gone'
end
local retry_stream = ARGV[2] .. group
redis.call('XADD', retry_stream, id_above(retry_stream, origin, server_ms()), unpack(fields))
redis.call('HSET', KEYS[2], ARGV[1], 'requeued')
redis.call('HINCRBY', KEYS[3], 'requeued:' .. group, 1)
local incarnation = redis.call('HGET', KEYS[3], 'incarnation') or ''
local number = redis.call('HINCRBY', KEYS[3], 'sequence:dead:' .. incarnation, 1)
redis.call('XADD', KEYS[1], '*', 'record', 'state', 'group', group, 'of', ARGV[1], 'state', 'requeued', 'incarnation', incarnation, 'sequence', number)
return 'requeued'
