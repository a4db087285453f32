-- What `seen` remembers of events: whether one is new, and the place for its record.
-- Needs `names` (of the event streams), `ledger`, `depths_field` (each window has buckets of its own, and depths of its own), `depths_known`
-- (what stands there), `stems` (what the buckets that may hold a marker are called but for their number; the first is for the one to write),
-- `ttl_s` and `owner` (<tenant>:<source>) of the event that is looked at.
--
-- A record: event id 16, body digest 8, stream 1, incarnation 8 bytes, then the entry id as text, which is empty while the
-- event waits; `promote` fills it in.
-- The first body of a delivery id is found under its marker, any other body under marker and digest. A bucket that is full
-- is never moved: what comes later goes to one of its four children, chosen by the marker's bytes after the fourth.

-- Keys that few calls need are named after those that they have, with the same hash tag.
local function beside(name)
    return (string.gsub(ledger, 'ledger$', name))
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
    return '|' .. names[stream] .. '|' .. owner .. '|' .. hexadecimal(event_id)
end

-- A record counts while its entry exists or waits, or lies at or below the archived mark of its own incarnation. Otherwise the
-- entry was lost beneath us, and the sender's retry is what brings the event back.
local function is_kept(record)
    local stream, in_incarnation, id = tonumber(string.sub(record, 25, 25)), string.sub(record, 26, 33), string.sub(record, 34)
    if id == '' then
        return redis.call('ZSCORE', beside('delayed'), member_of(stream, string.sub(record, 1, 16)))
    end
    if holds_event(redis.call('XRANGE', beside('events:' .. names[stream]), id, id)[1], string.sub(record, 1, 16)) then
        return true
    end
    local mark = redis.call('HGET', ledger, 'archived:' .. names[stream] .. ':' .. in_incarnation)
    return mark and at_or_below(id, mark)
end

-- So many records fill 8 KiB, a size in which allocators hand out memory: a few more would cost 10 KiB. Beyond 512 fields
-- (`hash-max-listpack-entries`) the server unpacks a hash, and an event would cost up to twice as much.
local most_in_a_bucket, deepest = 120, 8

-- Which periods have records, and how many generations of children their buckets: '|<period>=<depth>|...'. Most calls find one or two,
-- and need not look into the buckets of the others.
local periods, depths = {}, {}

local function read_depths()
    for i = 1, #stems do
        periods[i] = string.match(stems[i], ':(%d+):$')
        depths[i] = depths_known and tonumber(string.match(depths_known, '|' .. periods[i] .. '=(%d+)'))
    end
end

-- The bucket that follows one of generation `depth` on the way of this marker.
local function child_of(bucket, depth, marker)
    return bucket .. (depth == 0 and '.' or '') .. string.byte(marker, 5 + depth) % 4
end

-- The record of a kept entry, or nil; whether there is a record at all; and the bucket of the newest period that has one. A
-- record that is no longer believed is written over: were it left, it might be believed again when the archived mark rises.
local function find(number, marker, field)
    local is_known, stale = false, nil
    for i = 1, #stems do
        local last = depths[i]
        local bucket = last and stems[i] .. number
        for depth = 0, last or -1 do
            local record = redis.call('HGET', bucket, field)
            if record then
                is_known = true
                if is_kept(record) then
                    return record, true
                end
                stale = stale or (i == 1 and bucket) or nil
            end
            bucket = depth < last and child_of(bucket, depth, marker)
        end
    end
    return nil, is_known, stale
end

-- The first bucket on the marker's way that is not full, its generation, and whether it has nothing in it yet.
local function free_bucket(bucket, marker)
    local depth, many = 0, redis.call('HLEN', bucket)
    while depth < deepest and many >= most_in_a_bucket do
        bucket, depth = child_of(bucket, depth, marker), depth + 1
        many = redis.call('HLEN', bucket)
    end
    return bucket, depth, many == 0
end

-- The record that the event is a duplicate of; or nil, the field of its own record, whether it conflicts with another body (0 or
-- 1), and the bucket for the record with its generation and whether it is a new one. Reads only.
local function look(number, marker, digest)
    local field, conflict = marker, 0
    local first, is_known, stale = find(number, marker, marker)
    if first and string.sub(first, 17, 24) == digest then
        return first
    end
    -- The entry of the first body may be lost while that of another one is kept.
    if is_known then
        local same_body, _, stale_body = find(number, marker, marker .. digest)
        if same_body then
            return same_body
        end
        if first then
            field, conflict, stale = marker .. digest, 1, stale_body
        end
    end
    if stale then
        return nil, field, conflict, stale, 0, false
    end
    return nil, field, conflict, free_bucket(stems[1] .. number, marker)
end

-- Periods that nobody looks at any more fall out, and a clock that is wrong takes none of the others' with it: they have to be
-- over by the server's clock and by that of the caller. (A bucket lives for five periods, and one more may be looked at.)
local function note_depth(depth)
    local of_server = math.floor(server_ms() / (ttl_s * 200))
    local oldest, noted = math.min(of_server, tonumber(periods[1])) - 6, '|' .. periods[1] .. '=' .. depth .. '|'
    for period, of_other in string.gmatch(depths_known or '', '(%d+)=(%d+)') do
        if period ~= periods[1] and tonumber(period) >= oldest then
            noted = noted .. period .. '=' .. of_other .. '|'
        end
    end
    depths[1], depths_known = depth, noted
    redis.call('HSET', ledger, depths_field, noted)
end

local function remember(place, depth, is_new, field, record)
    if depth > (depths[1] or -1) then
        note_depth(depth)
    end
    redis.call('HSET', place, field, record)
    if is_new then  -- a bucket is forgotten as a whole
        redis.call('EXPIRE', place, ttl_s, 'NX')
    end
end

local function count(what, whose, by)
    if by > 0 then
        redis.call('HINCRBY', ledger, what .. ':' .. whose, by)
    end
end

local function duplicate_of(record)
    return {string.sub(record, 1, 16), names[tonumber(string.sub(record, 25, 25))], string.sub(record, 26, 33), string.sub(record, 34), 'duplicate'}
end
