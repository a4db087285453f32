-- Appends one event, once: looks in `seen`, takes the next number, adds the entry, remembers, counts.
-- XADD is the first of all writes, so that an error or a full memory leaves nothing behind.
-- An event of the future waits in the delayed set instead; it gets its number when `promote` appends it.
--
-- KEYS  1-4 event streams urgent default low overflow  5 ledger  6.. seen buckets, the one to write first; their
--       children are named after them, so they have the same hash tag
-- ARGV  1 incarnation  2 which of the streams (1-4)  3 marker (12 bytes)  4 body digest (8 bytes)
--       5 event id (16 bytes)  6 <tenant>:<source>  7 seconds to remember  8 recheck (0 or 1)
--       9 the delayed set (same hash tag as KEYS)  10 when to append it, ms, or 0  11.. fields and values
-- returns {'appended', event id, stream, incarnation, entry id, number, conflict (0 or 1)}
--         {'scheduled', event id, stream, incarnation, '', 0, conflict}
--         {'duplicate', first event id, stream, incarnation, entry id or '' while it waits, 0, 0}
--         {'incarnation', the ledger's}   the caller begins again
--         {'full'}                        the log is above its hard cap; nothing was stored or counted
-- include id_above

local names = {'urgent', 'default', 'low', 'overflow'}
local incarnation, index, digest = ARGV[1], tonumber(ARGV[2]), ARGV[4]
local ledger, owner, delayed = KEYS[5], ARGV[6], ARGV[9]

local known = redis.call('HMGET', ledger, 'incarnation', 'seen_depths', 'full')
if known[1] ~= incarnation then
    return {'incarnation', known[1] or ''}
end
-- Until then, unless whoever noted it says so again.
if known[3] and tonumber(known[3]) > server_ms() then
    return {'full'}
end

-- include seen

local first, field, conflict, place, depth = look(KEYS, 6, ARGV[3], digest)
if first then
    count('duplicates', 1)
    return duplicate_of(first)
end

local function note(entry_id)
    remember(KEYS, 6, place, depth, field, ARGV[5] .. digest .. index .. incarnation .. entry_id, ARGV[7])
    count('accepted', 1)
    count('conflicts', conflict)
end

if ARGV[10] ~= '0' and tonumber(ARGV[10]) > server_ms() then
    local fields, member = {}, member_of(index, ARGV[5])
    for i = 11, #ARGV do
        fields[#fields + 1] = ARGV[i]
    end
    -- The body first: were it the last and failed, something would wait that can never be appended.
    redis.call('HSET', delayed .. ':bodies', member, cmsgpack.pack({fields, ARGV[8], tostring(conflict), place, field}))
    redis.call('ZADD', delayed, ARGV[10], member)
    count('scheduled', 1)
    note('')
    return {'scheduled', ARGV[5], names[index], incarnation, '', 0, conflict}
end

local sequence_field = 'sequence:' .. names[index] .. ':' .. incarnation
local number = (tonumber(redis.call('HGET', ledger, sequence_field)) or 0) + 1
local number_text = string.format('%.0f', number)
local entry = {'XADD', KEYS[index], '*'}
for i = 11, #ARGV do
    entry[#entry + 1] = ARGV[i]
end
for _, part in ipairs({'incarnation', incarnation, 'sequence', number_text, 'recheck', ARGV[8], 'conflict', tostring(conflict)}) do
    entry[#entry + 1] = part
end
local entry_id = redis.call(unpack(entry))
redis.call('HSET', ledger, sequence_field, number_text)
note(entry_id)
return {'appended', ARGV[5], names[index], incarnation, entry_id, number, conflict}
