-- Appends events of one shard, each once, all of them or none: looks for every one in `seen`, adds the entries of those that are new,
-- remembers them, counts. What a call costs whatever it carries is paid once for all of them.
-- Everything is read before the first write. The first XADD fails when memory is full, and leaves nothing behind; when a later one
-- does (its stream has no more ids) the entries before it are taken away again.
-- An event of the future, which comes alone, waits in the delayed set instead; it gets its number when `promote` appends it.
--
-- KEYS  1 ledger  2-5 the event streams
-- ARGV  1 incarnation  2 seconds to remember  3 when to append it, ms, or 0
--       4-9 what the buckets of `seen` are called but for their number, the one to write first
--       10.. the events, each: which of the streams (1-4), <tenant>:<source>, recheck (0 or 1), number of its buckets, marker (12
--       bytes), body digest (8 bytes), event id (16 bytes), how many texts follow the values, the values of the fields that every
--       event has, further fields and values
-- returns for each event, in their order
--         {event id, entry id, number, conflict (0 or 1)}
--         {event id, '', 0, conflict}     it waits for its time
--         {first event id, stream, incarnation, entry id or '' while it waits, 'duplicate'}
--    or   {'incarnation', the ledger's}   the caller begins again
--         {'full'}                        the log is above its hard cap; nothing was stored or counted
-- include id_above

local incarnation, ttl_s, ledger, names = ARGV[1], ARGV[2], KEYS[1], {'urgent', 'default', 'low', 'overflow'}
local events_at, values_in = 10, 16

-- Each window has buckets of its own, and depths of its own.
local depths_field = 'seen_depths' .. (string.match(ARGV[4], ':seen(:%d+h):') or '')
local known = redis.call('HMGET', ledger, 'incarnation', depths_field, 'full')
if known[1] ~= incarnation then
    return {'incarnation', known[1] or ''}
end
-- Until then, unless whoever noted it says so again.
if known[3] and tonumber(known[3]) > server_ms() then
    return {'full'}
end

local owner
-- include seen

-- Here and below tables are made with room for all that they will hold: one that grows is built anew each time.
local function buckets_of(number)
    return {ARGV[4] .. number, ARGV[5] .. number, ARGV[6] .. number, ARGV[7] .. number, ARGV[8] .. number, ARGV[9] .. number}
end

-- The last number that was given, of each stream that an event goes to.
local numbers = {}

local function last_number(stream)
    return tonumber(redis.call('HGET', ledger, 'sequence:' .. names[stream] .. ':' .. incarnation) or '0')
end

-- What the events before this one will have remembered, by field.
local here = {}

-- An event is a duplicate or a conflict of one before it in the same call as it would be had that one come alone.
local function look_here(event)
    local before = here[event.field]
    if before and before.digest ~= event.digest then
        event.field, event.conflict = event.marker .. event.digest, 1
        before = here[event.field]
    end
    return before
end

local events, fresh, at = {}, {}, events_at
while at <= #ARGV do
    local event = {
        stream = tonumber(ARGV[at]), owner = ARGV[at + 1], recheck = ARGV[at + 2], buckets = buckets_of(ARGV[at + 3]), marker = ARGV[at + 4],
        digest = ARGV[at + 5], id = ARGV[at + 6], further = tonumber(ARGV[at + 7]), values = at + 8, first = false, field = false,
        conflict = 0, place = false, depth = 0, is_new = false, twin = false, number = 0, entry_id = '', record = false,
    }
    owner = event.owner
    event.first, event.field, event.conflict, event.place, event.depth, event.is_new = look(event.buckets, event.marker, event.digest)
    if not event.first then
        event.twin = look_here(event)
        if not event.twin then
            here[event.field] = event
            fresh[#fresh + 1] = event
            numbers[event.stream] = numbers[event.stream] or last_number(event.stream)
        end
    end
    events[#events + 1] = event
    at = event.values + values_in + event.further
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

local function record(event)
    local text = event.id .. event.digest .. event.stream .. incarnation .. event.entry_id
    remember(event.buckets, event.place, event.depth, event.is_new, event.field, text, ttl_s)
    event.record = text
end

local function reply_to(event)
    local first = event.first or (event.twin and event.twin.record)
    return first and duplicate_of(first) or {event.id, event.entry_id, event.number, event.conflict}
end

if ARGV[3] ~= '0' and fresh[1] and tonumber(ARGV[3]) > server_ms() then
    local event, delayed = fresh[1], beside('delayed')
    local member = member_of(event.stream, event.id)
    local waiting = {{fields_of(event.values, event.further)}, event.recheck, tostring(event.conflict), event.place, event.field}
    -- The body first: were it the last and failed, something would wait that can never be appended.
    redis.call('HSET', delayed .. ':bodies', member, cmsgpack.pack(waiting))
    redis.call('ZADD', delayed, ARGV[3], member)
    count('scheduled', 1)
    count('accepted', 1)
    event.entry_id, event.number = '', 0
    record(event)
    count('conflicts', event.conflict)
    return {reply_to(event)}
end

for i, event in ipairs(fresh) do
    event.number = numbers[event.stream] + 1
    local added = redis.pcall('XADD', KEYS[1 + event.stream], '*', fields_of(event.values, event.further,
        'incarnation', incarnation, 'sequence', string.format('%d', event.number), 'recheck', event.recheck, 'conflict', event.conflict))
    if type(added) == 'table' and added.err then
        for j = 1, i - 1 do
            redis.call('XDEL', KEYS[1 + fresh[j].stream], fresh[j].entry_id)
        end
        return added
    end
    event.entry_id, numbers[event.stream] = added, event.number
end

for stream, number in pairs(numbers) do
    redis.call('HSET', ledger, 'sequence:' .. names[stream] .. ':' .. incarnation, string.format('%d', number))
end

local counts = {}

local function add(what, event, by)
    local field = what .. ':' .. event.owner
    counts[field] = (counts[field] or 0) + by
end

for _, event in ipairs(fresh) do
    record(event)
    add('accepted', event, 1)
    if event.conflict > 0 then
        add('conflicts', event, 1)
    end
end

local replies = {}
for i, event in ipairs(events) do
    if event.first or event.twin then
        add('duplicates', event, 1)
    end
    replies[i] = reply_to(event)
end
for field, by in pairs(counts) do
    redis.call('HINCRBY', ledger, field, by)
end
return replies
