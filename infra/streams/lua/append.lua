-- Appends one event, once: looks in `seen`, takes the next number, adds the entry, remembers, counts.
-- XADD is the first of all writes, so that an error or a full memory leaves nothing behind.
-- An event of the future waits in the delayed set instead; it gets its number when `promote` appends it.
--
-- KEYS  1 the event stream  2 ledger  3.. seen buckets, the one to write first; their children are named after them, so they have
--       the same hash tag
-- ARGV  1 incarnation  2 which of the streams (1-4)  3 marker (12 bytes)  4 body digest (8 bytes)
--       5 event id (16 bytes)  6 <tenant>:<source>  7 seconds to remember  8 recheck (0 or 1)
--       9 when to append it, ms, or 0  10-25 the values of the fields that every event has  26.. further fields and values
-- returns {'appended', event id, stream, incarnation, entry id, number, conflict (0 or 1)}
--         {'scheduled', event id, stream, incarnation, '', 0, conflict}
--         {'duplicate', first event id, stream, incarnation, entry id or '' while it waits, 0, 0}
--         {'incarnation', the ledger's}   the caller begins again
--         {'full'}                        the log is above its hard cap; nothing was stored or counted
-- include id_above

local incarnation, index, digest = ARGV[1], tonumber(ARGV[2]), ARGV[4]
local owner = ARGV[6]

-- include admit
-- include seen

local first, field, conflict, place, depth, is_new = look(KEYS, 3, ARGV[3], digest)
if first then
    count('duplicates', 1)
    return duplicate_of(first)
end

local function note(entry_id)
    remember(KEYS, 3, place, depth, is_new, field, ARGV[5] .. digest .. index .. incarnation .. entry_id, ARGV[7])
    count('conflicts', conflict)
end

-- Their names stand here and not in every call, which has half as many arguments so. A test holds them against `encode`.
local entry = {
    'version', ARGV[10], 'id', ARGV[11], 'tenant_id', ARGV[12], 'source', ARGV[13], 'event_type', ARGV[14], 'repository', ARGV[15],
    'delivery_id', ARGV[16], 'key', ARGV[17], 'priority', ARGV[18], 'timestamp', ARGV[19], 'payload', ARGV[20],
    'body_sha256', ARGV[21], 'content_type', ARGV[22], 'headers', ARGV[23], 'auth_context', ARGV[24], 'traceparent', ARGV[25],
    unpack(ARGV, 26)
}

if ARGV[9] ~= '0' and tonumber(ARGV[9]) > server_ms() then
    local delayed, member = beside('delayed'), member_of(index, ARGV[5])
    -- The body first: were it the last and failed, something would wait that can never be appended.
    redis.call('HSET', delayed .. ':bodies', member, cmsgpack.pack({entry, ARGV[8], tostring(conflict), place, field}))
    redis.call('ZADD', delayed, ARGV[9], member)
    count('scheduled', 1)
    count('accepted', 1)
    note('')
    return {'scheduled', ARGV[5], names[index], incarnation, '', 0, conflict}
end

local many = #entry
entry[many + 1], entry[many + 2], entry[many + 3], entry[many + 4] = 'incarnation', incarnation, 'sequence', string.format('%d', number + 1)
entry[many + 5], entry[many + 6], entry[many + 7], entry[many + 8] = 'recheck', ARGV[8], 'conflict', tostring(conflict)
local entry_id = redis.call('XADD', KEYS[1], '*', unpack(entry))
note_given(1)
note(entry_id)
return {'appended', ARGV[5], names[index], incarnation, entry_id, number + 1, conflict}
