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
--
-- A record in `seen`: event id 16, body digest 8, stream 1, incarnation 8 bytes, then the entry id as text,
-- which is empty while the event waits; `promote` fills it in.
-- The first body of a delivery id is found under its marker, any other body under marker and digest. A bucket that is full
-- is never moved: what comes later goes to one of its four children, chosen by the marker's bytes after the fourth.
-- include id_above

local names = {'urgent', 'default', 'low', 'overflow'}
local incarnation, index, marker, digest = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local ledger = KEYS[5]

local known = redis.call('HMGET', ledger, 'incarnation', 'seen_depths', 'full')
if known[1] ~= incarnation then
    return {'incarnation', known[1] or ''}
end
-- Until then, unless whoever noted it says so again.
if known[3] and tonumber(known[3]) > server_ms() then
    return {'full'}
end

local function at_or_below(id, mark)
    local ms, n = string.match(id, '(%d+)-(%d+)')
    local mark_ms, mark_n = string.match(mark, '(%d+)-(%d+)')
    ms, n, mark_ms, mark_n = tonumber(ms), tonumber(n), tonumber(mark_ms), tonumber(mark_n)
    return ms < mark_ms or (ms == mark_ms and n <= mark_n)
end

local function hexadecimal(bytes)
    return (string.gsub(bytes, '.', function(byte) return string.format('%02x', string.byte(byte)) end))
end

-- After a flush and a step of the server's clock another event may stand under the same entry id.
local function holds_event(entry, event_id)
    for i = 1, entry and #entry[2] or 0, 2 do
        if entry[2][i] == 'id' then
            return string.gsub(entry[2][i + 1], '-', '') == hexadecimal(event_id)
        end
    end
    return false
end

-- How a scheduled event is called in the delayed set: retries begin with their group, these with nothing.
local function member_of(stream, event_id)
    return '|' .. names[stream] .. '|' .. ARGV[6] .. '|' .. hexadecimal(event_id)
end

-- A record counts while its entry exists or waits, or lies at or below the archived mark of its own incarnation. Otherwise the
-- entry was lost beneath us, and the sender's retry is what brings the event back.
local function is_kept(record)
    local stream, in_incarnation, id = tonumber(string.sub(record, 25, 25)), string.sub(record, 26, 33), string.sub(record, 34)
    if id == '' then
        return redis.call('ZSCORE', ARGV[9], member_of(stream, string.sub(record, 1, 16)))
    end
    if holds_event(redis.call('XRANGE', KEYS[stream], id, id)[1], string.sub(record, 1, 16)) then
        return true
    end
    local mark = redis.call('HGET', ledger, 'archived:' .. names[stream] .. ':' .. in_incarnation)
    return mark and at_or_below(id, mark)
end

-- So many records fill 8 KiB, a size in which allocators hand out memory: a few more would cost 10 KiB. Beyond 512 fields
-- (`hash-max-listpack-entries`) the server unpacks a hash, and an event would cost up to twice as much.
local most_in_a_bucket, deepest = 120, 8

local function period_of(bucket)
    return string.match(bucket, ':seen:(%d+):')
end

-- How many generations of children a period has; `seen_depths` is '|<period>=<depth>|...', and missing while none has any.
local function depth_of(bucket)
    return known[2] and tonumber(string.match(known[2], '|' .. period_of(bucket) .. '=(%d+)')) or 0
end

-- The bucket that follows one of generation `depth` on the way of this marker.
local function child_of(bucket, depth)
    return bucket .. (depth == 0 and '.' or '') .. string.byte(marker, 5 + depth) % 4
end

-- The record of a kept entry, or nil; whether there is a record at all; and the bucket of the newest period that has one. A
-- record that is no longer believed is written over: were it left, it might be believed again when the archived mark rises.
local function find(field)
    local is_known, stale = false, nil
    for i = 6, #KEYS do
        local bucket = KEYS[i]
        for depth = 0, depth_of(bucket) do
            local record = redis.call('HGET', bucket, field)
            is_known = is_known or record
            if record and is_kept(record) then
                return record, true
            end
            if record and i == 6 then
                stale = stale or bucket
            end
            bucket = child_of(bucket, depth)
        end
    end
    return nil, is_known, stale
end

local function note_depth(depth)
    local depths = '|' .. period_of(KEYS[6]) .. '=' .. depth .. '|'
    for i = 7, #KEYS do  -- the others fall out of the window
        local of_other = depth_of(KEYS[i])
        depths = of_other > 0 and depths .. period_of(KEYS[i]) .. '=' .. of_other .. '|' or depths
    end
    redis.call('HSET', ledger, 'seen_depths', depths)
end

-- The first bucket on the marker's way that is not full, and its generation.
local function free_bucket()
    local bucket, depth = KEYS[6], 0
    while depth < deepest and redis.call('HLEN', bucket) >= most_in_a_bucket do
        bucket, depth = child_of(bucket, depth), depth + 1
    end
    return bucket, depth
end

local function duplicate_of(record)
    redis.call('HINCRBY', ledger, 'duplicates:' .. ARGV[6], 1)
    return {'duplicate', string.sub(record, 1, 16), names[tonumber(string.sub(record, 25, 25))], string.sub(record, 26, 33), string.sub(record, 34), 0, 0}
end

local field, conflict = marker, 0
local first, is_known, stale = find(marker)
if first and string.sub(first, 17, 24) == digest then
    return duplicate_of(first)
end
-- The entry of the first body may be lost while that of another one is kept.
if is_known then
    local same_body, _, stale_body = find(marker .. digest)
    if same_body then
        return duplicate_of(same_body)
    end
    if first then
        field, conflict, stale = marker .. digest, 1, stale_body
    end
end

local place, depth = stale, 0
if not place then
    place, depth = free_bucket()
end

local function remember(entry_id)
    if depth > depth_of(KEYS[6]) then
        note_depth(depth)
    end
    redis.call('HSET', place, field, ARGV[5] .. digest .. index .. incarnation .. entry_id)
    redis.call('EXPIRE', place, ARGV[7], 'NX')
    redis.call('HINCRBY', ledger, 'accepted:' .. ARGV[6], 1)
    if conflict == 1 then
        redis.call('HINCRBY', ledger, 'conflicts:' .. ARGV[6], 1)
    end
end

if ARGV[10] ~= '0' and tonumber(ARGV[10]) > server_ms() then
    local fields, member = {}, member_of(index, ARGV[5])
    for i = 11, #ARGV do
        fields[#fields + 1] = ARGV[i]
    end
    -- The body first: were it the last and failed, something would wait that can never be appended.
    redis.call('HSET', ARGV[9] .. ':bodies', member, cmsgpack.pack({fields, ARGV[8], tostring(conflict), place, field}))
    redis.call('ZADD', ARGV[9], ARGV[10], member)
    redis.call('HINCRBY', ledger, 'scheduled:' .. ARGV[6], 1)
    remember('')
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
remember(entry_id)
return {'appended', ARGV[5], names[index], incarnation, entry_id, number, conflict}
