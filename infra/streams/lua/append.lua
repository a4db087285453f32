-- Appends one event, once: looks in `seen`, takes the next number, adds the entry, remembers, counts.
-- XADD is the first of all writes, so that an error or a full memory leaves nothing behind.
--
-- KEYS  1-4 event streams urgent default low overflow  5 ledger  6.. seen buckets, the one to write first
-- ARGV  1 incarnation  2 which of the streams (1-4)  3 marker (16 bytes)  4 body digest (8 bytes)
--       5 event id (16 bytes)  6 <tenant>:<source>  7 seconds to remember  8 recheck (0 or 1)  9.. fields and values
-- returns {'appended', event id, stream, incarnation, entry id, number, conflict (0 or 1)}
--         {'duplicate', first event id, stream, incarnation, entry id, 0, 0}
--         {'incarnation', the ledger's}   the caller begins again
--
-- A record in `seen`: event id 16, body digest 8, stream 1, incarnation 8 bytes, then the entry id as text.
-- The first body of a delivery id is found under its marker, any other body under marker and digest.
local names = {'urgent', 'default', 'low', 'overflow'}
local incarnation, index, marker, digest = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local ledger = KEYS[5]

if redis.call('HGET', ledger, 'incarnation') ~= incarnation then
    return {'incarnation', redis.call('HGET', ledger, 'incarnation') or ''}
end

local function at_or_below(id, mark)
    local ms, n = string.match(id, '(%d+)-(%d+)')
    local mark_ms, mark_n = string.match(mark, '(%d+)-(%d+)')
    ms, n, mark_ms, mark_n = tonumber(ms), tonumber(n), tonumber(mark_ms), tonumber(mark_n)
    return ms < mark_ms or (ms == mark_ms and n <= mark_n)
end

-- After a flush and a step of the server's clock another event may stand under the same entry id.
local function holds_event(entry, event_id)
    for i = 1, entry and #entry[2] or 0, 2 do
        if entry[2][i] == 'id' then
            local hexadecimal = string.gsub(event_id, '.', function(byte) return string.format('%02x', string.byte(byte)) end)
            return string.gsub(entry[2][i + 1], '-', '') == hexadecimal
        end
    end
    return false
end

-- A record counts while its entry exists, or lies at or below the archived mark of its own incarnation. Otherwise the
-- entry was lost beneath us, and the sender's retry is what brings the event back.
local function is_kept(record)
    local stream, in_incarnation, id = tonumber(string.sub(record, 25, 25)), string.sub(record, 26, 33), string.sub(record, 34)
    if holds_event(redis.call('XRANGE', KEYS[stream], id, id)[1], string.sub(record, 1, 16)) then
        return true
    end
    local mark = redis.call('HGET', ledger, 'archived:' .. names[stream] .. ':' .. in_incarnation)
    return mark and at_or_below(id, mark)
end

-- The record of a kept entry, or nil; and whether there is a record at all.
local function find(field)
    local is_known = false
    for i = 6, #KEYS do
        local record = redis.call('HGET', KEYS[i], field)
        is_known = is_known or record
        if record and is_kept(record) then
            return record, true
        end
    end
    return nil, is_known
end

local function duplicate_of(record)
    redis.call('HINCRBY', ledger, 'duplicates:' .. ARGV[6], 1)
    return {'duplicate', string.sub(record, 1, 16), names[tonumber(string.sub(record, 25, 25))], string.sub(record, 26, 33), string.sub(record, 34), 0, 0}
end

local field, conflict = marker, 0
local first, is_known = find(marker)
if first and string.sub(first, 17, 24) == digest then
    return duplicate_of(first)
end
-- The entry of the first body may be lost while that of another one is kept.
local same_body = is_known and find(marker .. digest)
if same_body then
    return duplicate_of(same_body)
end
if first then
    field, conflict = marker .. digest, 1
end

local sequence_field = 'sequence:' .. names[index] .. ':' .. incarnation
local number = (tonumber(redis.call('HGET', ledger, sequence_field)) or 0) + 1
local number_text = string.format('%.0f', number)
local entry = {'XADD', KEYS[index], '*'}
for i = 9, #ARGV do
    entry[#entry + 1] = ARGV[i]
end
for _, part in ipairs({'incarnation', incarnation, 'sequence', number_text, 'recheck', ARGV[8], 'conflict', tostring(conflict)}) do
    entry[#entry + 1] = part
end
local entry_id = redis.call(unpack(entry))
redis.call('HSET', ledger, sequence_field, number_text)
redis.call('HSET', KEYS[6], field, ARGV[5] .. digest .. index .. incarnation .. entry_id)
redis.call('EXPIRE', KEYS[6], ARGV[7], 'NX')
redis.call('HINCRBY', ledger, 'accepted:' .. ARGV[6], 1)
if conflict == 1 then
    redis.call('HINCRBY', ledger, 'conflicts:' .. ARGV[6], 1)
end
return {'appended', ARGV[5], names[index], incarnation, entry_id, number, conflict}
