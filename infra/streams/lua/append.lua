-- Appends events of one shard, each once, all of them or none: looks for every one in `seen`, adds the entries of those that are new,
-- remembers them, counts. What a call costs whatever it carries is paid once for all of them.
-- Everything is read before the first write. The first XADD fails when memory is full, and leaves nothing behind; when a later one
-- does (its stream has no more ids) the entries before it are taken away again.
-- An event of the future, which comes alone, waits in the delayed set instead; it gets its number when `promote` appends it.
--
-- KEYS  1 ledger  2-5 the event streams
-- ARGV  1 incarnation  2 seconds to remember  3 when to append it, ms, or 0  4 recheck (0 or 1)
--       5-10 what the buckets of `seen` are called but for their number, the one to write first
--       11.. the events, each: its head (marker 12, event id 16, body digest 8 bytes; which of the streams, 1-4; how many texts follow the
--       values, 0-9; the number of its buckets), the values of the fields that every event has, further fields and values
-- returns for each event, in their order
--         event id .. number|entry id     it is on its stream, as one text: every event costs what its reply costs
--         {event id, entry id, number, 1}   the same, and it is in conflict with another body
--         {event id, '', 0, conflict (0 or 1)}   it waits for its time
--         {first event id, stream, incarnation, entry id or '' while it waits, 'duplicate'}
--    or   {'incarnation', the ledger's}   the caller begins again
--         {'full'}                        the log is above its hard cap; nothing was stored or counted
-- include id_above

local incarnation, ttl_s, recheck, ledger, names = ARGV[1], ARGV[2], ARGV[4], KEYS[1], {'urgent', 'default', 'low', 'overflow'}
local stems = {ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]}
local events_at, values_in = 11, 16

-- Each window has buckets of its own, and depths of its own.
local depths_field = 'seen_depths' .. (string.match(stems[1], ':seen(:%d+h):') or '')
local known = redis.call('HMGET', ledger, 'incarnation', depths_field, 'full')
if known[1] ~= incarnation then
    return {'incarnation', known[1] or ''}
end
-- Until then, unless whoever noted it says so again.
if known[3] and tonumber(known[3]) > server_ms() then
    return {'full'}
end

local depths_known, owner, tenant, source = known[2], nil, nil, nil
-- include seen

read_depths()

-- Nearly all events of a call are of one source.
local function owner_of(at)
    if ARGV[at + 3] ~= tenant or ARGV[at + 4] ~= source then
        tenant, source = ARGV[at + 3], ARGV[at + 4]
        owner = tenant .. ':' .. source
    end
    return owner
end

local function stream_of(head)
    return string.byte(head, 37) - 48
end

local function further_of(head)
    return string.byte(head, 38) - 48
end

local function id_of(head)
    return string.sub(head, 13, 28)
end

-- The last number that was given, of each stream that an event goes to.
local numbers = {}

local function last_number(stream)
    return tonumber(redis.call('HGET', ledger, 'sequence:' .. names[stream] .. ':' .. incarnation) or '0')
end

-- By the number of an event in this call: where its arguments begin, whose it is, the record that it is a duplicate of, or which event
-- of this call; its field, whether it conflicts, and the place for its record. A table for each event would cost more than all these.
local starts, owners, firsts, twins, fields, conflicts, places, generations, news = {}, {}, {}, {}, {}, {}, {}, {}, {}
-- Which events are new, in their order; and what they will have remembered, by field.
local fresh, here = {}, {}

-- An event is a duplicate or a conflict of one before it in the same call as it would be had that one come alone.
local function look_here(i, marker, digest)
    local before = here[fields[i]]
    if before and string.sub(ARGV[starts[before]], 29, 36) ~= digest then
        fields[i], conflicts[i] = marker .. digest, 1
        before = here[fields[i]]
    end
    return before
end

local at, many = events_at, 0
while at <= #ARGV do
    local head = ARGV[at]
    local marker, digest, i = string.sub(head, 1, 12), string.sub(head, 29, 36), many + 1
    starts[i], owners[i] = at, owner_of(at)
    firsts[i], fields[i], conflicts[i], places[i], generations[i], news[i] = look(string.sub(head, 39), marker, digest)
    if not firsts[i] then
        twins[i] = look_here(i, marker, digest)
        if not twins[i] then
            local stream = stream_of(head)
            here[fields[i]], fresh[#fresh + 1] = i, i
            numbers[stream] = numbers[stream] or last_number(stream)
        end
    end
    at, many = at + 1 + values_in + further_of(head), i
end

-- Their names stand here and not in every call, which has half as many arguments so. A test holds them against `encode`.
local function fields_of(v, further, ...)
    if further > 0 then
        local entry = {fields_of(v, 0)}
        for i = v + values_in, v + values_in + further - 1 do
            entry[#entry + 1] = ARGV[i]
        end
        for _, text in ipairs({...}) do
            entry[#entry + 1] = text
        end
        return unpack(entry)
    end
    return 'version', ARGV[v], 'id', ARGV[v + 1], 'tenant_id', ARGV[v + 2], 'source', ARGV[v + 3], 'event_type', ARGV[v + 4],
        'repository', ARGV[v + 5], 'delivery_id', ARGV[v + 6], 'key', ARGV[v + 7], 'priority', ARGV[v + 8], 'timestamp', ARGV[v + 9],
        'payload', ARGV[v + 10], 'body_sha256', ARGV[v + 11], 'content_type', ARGV[v + 12], 'headers', ARGV[v + 13],
        'auth_context', ARGV[v + 14], 'traceparent', ARGV[v + 15], ...
end

-- By the number of an event: its record, and the reply to who sent it.
local records, replies = {}, {}

local function record(i, entry_id)
    records[i] = string.sub(ARGV[starts[i]], 13, 37) .. incarnation .. entry_id
    remember(places[i], generations[i], news[i], fields[i], records[i])
end

if ARGV[3] ~= '0' and fresh[1] and tonumber(ARGV[3]) > server_ms() then
    local head, delayed = ARGV[events_at], beside('delayed')
    local member = member_of(stream_of(head), id_of(head))
    local waiting = {{fields_of(events_at + 1, further_of(head))}, recheck, tostring(conflicts[1]), places[1], fields[1]}
    -- The body first: were it the last and failed, something would wait that can never be appended.
    redis.call('HSET', delayed .. ':bodies', member, cmsgpack.pack(waiting))
    redis.call('ZADD', delayed, ARGV[3], member)
    count('scheduled', owner, 1)
    count('accepted', owner, 1)
    record(1, '')
    count('conflicts', owner, conflicts[1])
    return {{id_of(head), '', 0, conflicts[1]}}
end

local entry_ids, sequences = {}, {}
for k, i in ipairs(fresh) do
    local head = ARGV[starts[i]]
    local stream = stream_of(head)
    local number = numbers[stream] + 1
    sequences[i] = string.format('%d', number)
    local added = redis.pcall('XADD', KEYS[1 + stream], '*', fields_of(starts[i] + 1, further_of(head),
        'incarnation', incarnation, 'sequence', sequences[i], 'recheck', recheck, 'conflict', conflicts[i]))
    if type(added) == 'table' and added.err then
        for j = 1, k - 1 do
            redis.call('XDEL', KEYS[1 + stream_of(ARGV[starts[fresh[j]]])], entry_ids[fresh[j]])
        end
        return added
    end
    entry_ids[i], numbers[stream] = added, number
end

for stream, number in pairs(numbers) do
    redis.call('HSET', ledger, 'sequence:' .. names[stream] .. ':' .. incarnation, string.format('%d', number))
end

local accepted, conflicting, repeated = {}, {}, {}

for _, i in ipairs(fresh) do
    record(i, entry_ids[i])
    accepted[owners[i]] = (accepted[owners[i]] or 0) + 1
    if conflicts[i] > 0 then
        conflicting[owners[i]] = (conflicting[owners[i]] or 0) + 1
        replies[i] = {id_of(ARGV[starts[i]]), entry_ids[i], tonumber(sequences[i]), 1}
    else
        replies[i] = id_of(ARGV[starts[i]]) .. sequences[i] .. '|' .. entry_ids[i]
    end
end

for i = 1, many do
    local first = firsts[i] or records[twins[i]]
    if first then
        repeated[owners[i]] = (repeated[owners[i]] or 0) + 1
        replies[i] = duplicate_of(first)
    end
end

for what, counts in pairs({accepted = accepted, conflicts = conflicting, duplicates = repeated}) do
    for of, by in pairs(counts) do
        count(what, of, by)
    end
end
return replies
