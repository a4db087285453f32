-- What `seen` remembers of events: whether one is new, and the place for its record.
-- Needs `names` (of the event streams), `ledger`, `known` (its incarnation and seen_depths), `depths_field` (what the latter is called:
-- each window has buckets of its own, and depths of its own) and `owner` (<tenant>:<source>) of the event that is looked at.
-- The buckets that may hold a marker are `buckets`; the first is the one to write.
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

local function period_of(bucket)
    return string.match(bucket, ':seen:(%d+):') or string.match(bucket, ':seen:%d+h:(%d+):')
end

-- How many generations of children a period has; `seen_depths` is '|<period>=<depth>|...', and missing while none has any.
local function depth_of(bucket)
    return known[2] and tonumber(string.match(known[2], '|' .. period_of(bucket) .. '=(%d+)')) or 0
end

-- The bucket that follows one of generation `depth` on the way of this marker.
local function child_of(bucket, depth, marker)
    return bucket .. (depth == 0 and '.' or '') .. string.byte(marker, 5 + depth) % 4
end

-- The record of a kept entry, or nil; whether there is a record at all; and the bucket of the newest period that has one. A
-- record that is no longer believed is written over: were it left, it might be believed again when the archived mark rises.
local function find(buckets, marker, field)
    local is_known, stale = false, nil
    for i = 1, #buckets do
        local bucket, last = buckets[i], depth_of(buckets[i])
        for depth = 0, last do
            local record = redis.call('HGET', bucket, field)
            is_known = is_known or record
            if record and is_kept(record) then
                return record, true
            end
            if record and i == 1 then
                stale = stale or bucket
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
local function look(buckets, marker, digest)
    local field, conflict = marker, 0
    local first, is_known, stale = find(buckets, marker, marker)
    if first and string.sub(first, 17, 24) == digest then
        return first
    end
    -- The entry of the first body may be lost while that of another one is kept.
    if is_known then
        local same_body, _, stale_body = find(buckets, marker, marker .. digest)
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
    return nil, field, conflict, free_bucket(buckets[1], marker)
end

local function note_depth(buckets, depth)
    local depths = '|' .. period_of(buckets[1]) .. '=' .. depth .. '|'
    for i = 2, #buckets do  -- the others fall out of the window
        local of_other = depth_of(buckets[i])
        depths = of_other > 0 and depths .. period_of(buckets[i]) .. '=' .. of_other .. '|' or depths
    end
    known[2] = depths
    redis.call('HSET', ledger, depths_field, depths)
end

local function remember(buckets, place, depth, is_new, field, record, ttl_s)
    if depth > depth_of(buckets[1]) then
        note_depth(buckets, depth)
    end
    redis.call('HSET', place, field, record)
    if is_new then  -- a bucket is forgotten as a whole
        redis.call('EXPIRE', place, ttl_s, 'NX')
    end
end

local function count(what, by)
    if by > 0 then
        redis.call('HINCRBY', ledger, what .. ':' .. owner, by)
    end
end

local function duplicate_of(record)
    return {string.sub(record, 1, 16), names[tonumber(string.sub(record, 25, 25))], string.sub(record, 26, 33), string.sub(record, 34), 'duplicate'}
end
