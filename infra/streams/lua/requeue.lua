-- Sends one dead letter back to its group, once: a second requeue finds the state and does nothing.
-- The dead letter itself stays; a state record says what became of it, and who decided so.
--
-- KEYS  1 dead  2 dead state  3 ledger
-- ARGV  1 entry id of the dead letter  2 who  3 the start of the shard's retry keys (same hash tag)  4.. names of a letter's own fields
-- returns 'requeued' | 'already' | 'discarded' (before, so it was not requeued)
--         'gone' (the letter is, or the event was when the letter was written)
-- include id_above
-- include state_record
-- include decide_letter

local letter, refusal = open_letter('requeued')
if refusal then
    return refusal
end
local own = {}
for i = 4, #ARGV do
    own[ARGV[i]] = true
end
local fields = {}
for i = 1, #letter.fields, 2 do
    local name, value = letter.fields[i], letter.fields[i + 1]
    if not own[name] then
        -- settle puts this prefix before fields of the entry that are called like the letter's own.
        fields[#fields + 1] = string.sub(name, 1, 5) == 'kept:' and string.sub(name, 6) or name
        fields[#fields + 1] = value
    end
end
if #fields == 0 then
    return 'gone'
end
local retry_stream = ARGV[3] .. letter.group
redis.call('XADD', retry_stream, id_above(retry_stream, letter.origin, server_ms()), unpack(fields))
return decide(letter, 'requeued', '')
