-- Builds a stream anew, with the same entries, ids, groups and deliveries in work: XDEL only marks an entry, and its bytes stay in
-- memory, and in the server's files, for as long as a neighbour in its node does.
-- A call copies some entries, aside, while everybody goes on with the stream; the call that comes to its end puts the copy in its place,
-- with the groups as they are then. Nothing is ever inserted below an entry that was copied, so the copy has all that the stream has up
-- to there; what was trimmed since is trimmed from the copy, too, and if it still has more than the stream, somebody has deleted in the
-- middle, and it is begun again. An error or a full memory changes nothing.
--
-- KEYS  1 stream  2 its copy  3 a name for the stream on its way out (all of one hash tag)
-- ARGV  1 entry id up to which it was copied, empty to begin  2 how many entries were copied  3 how many the stream had ever had then
--       4 its newest id then  5 how many entries a call copies, and 6 bytes: the server does nothing else meanwhile
--       7 how many deliveries in work there may be, which are all copied by the last call  8 seconds that a copy stays if nobody goes on
-- returns {'copied', for the next call: ARGV 1 to 4}
--         {'rebuilt'}     also when there is no such stream
--         {'changed'}     begin again: entries were deleted in the middle, the stream is another one, or the copy is gone
--         {'left', why}   too many deliveries in work or fields in an entry, deliveries of entries that are gone, or no memory
-- include standing

local last_copied, copied, most, most_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5]), tonumber(ARGV[6])

local function give_up(...)
    redis.call('UNLINK', KEYS[2])
    return {...}
end

if last_copied == '' or redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('UNLINK', KEYS[2])
end
if redis.call('EXISTS', KEYS[1]) == 0 then
    return {'rebuilt'}
end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
local newest, added = value(info, 'last-generated-id'), value(info, 'entries-added')

-- Whether the copy is the one that was made so far, and the stream the one that it was made of.
local function is_continued()
    local copy = redis.pcall('XINFO', 'STREAM', KEYS[2])  -- an error while there is none
    if copy.err or value(copy, 'last-generated-id') ~= last_copied or value(copy, 'entries-added') ~= copied then
        return false
    end
    return added >= tonumber(ARGV[3]) and not below(place(newest), place(ARGV[4]))
end
if last_copied ~= '' and not is_continued() then
    return give_up('changed')
end

local function copy_some(count)
    local some, size = redis.call('XRANGE', KEYS[1], last_copied == '' and '-' or '(' .. last_copied, '+', 'COUNT', count), 0
    for _, entry in ipairs(some) do
        if #entry[2] > 7000 then  -- more than Lua can pass on, and the error would leave the copy behind
            return nil, 'an entry has too many fields'
        end
        local done = redis.pcall('XADD', KEYS[2], entry[1], unpack(entry[2]))
        if type(done) == 'table' and done.err then
            return nil, done.err
        end
        last_copied, copied = entry[1], copied + 1
        for _, text in ipairs(entry[2]) do
            size = size + #text
        end
    end
    return #some < count, size
end

-- How large the next entries are is known when they were read: a few at first, and more while they are small.
local is_end, until_copied, bytes, count = false, copied + most, 0, 4
while not is_end and copied < until_copied and bytes < most_bytes do
    local ended, size = copy_some(count)
    if ended == nil then
        return give_up('left', size)
    end
    is_end, bytes, count = ended, bytes + size, size < 65536 and math.min(2 * count, 64) or 4
end
local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
redis.call('XTRIM', KEYS[2], 'MINID', first and first[1] or '18446744073709551615-18446744073709551615')
if not is_end then
    redis.call('EXPIRE', KEYS[2], ARGV[8])
    return {'copied', last_copied, copied, added, newest}
end
if redis.call('XLEN', KEYS[2]) ~= value(info, 'length') then
    return give_up('changed')
end

local groups, in_work = {}, 0
for _, found in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
    groups[#groups + 1] = {
        name = value(found, 'name'), at = value(found, 'last-delivered-id'), read = value(found, 'entries-read'),
        consumers = redis.call('XINFO', 'CONSUMERS', KEYS[1], value(found, 'name')), pending = {},
    }
    in_work = in_work + value(found, 'pending')
end
if in_work > tonumber(ARGV[7]) then
    return give_up('left', 'too many deliveries are in work')
end
for _, group in ipairs(groups) do
    local from = '-'
    repeat
        local some = redis.call('XPENDING', KEYS[1], group.name, from, '+', 1000)
        for _, delivery in ipairs(some) do
            group.pending[#group.pending + 1] = delivery
            from = '(' .. delivery[1]
        end
    until #some < 1000
end

if redis.call('EXISTS', KEYS[2]) == 0 and newest ~= '0-0' then
    redis.call('XADD', KEYS[2], newest, 'a', 'b')
    redis.call('XDEL', KEYS[2], newest)
end
for _, group in ipairs(groups) do
    redis.call('XGROUP', 'CREATE', KEYS[2], group.name, group.at, 'MKSTREAM', unpack(group.read and {'ENTRIESREAD', group.read} or {}))
    for _, consumer in ipairs(group.consumers) do
        redis.call('XGROUP', 'CREATECONSUMER', KEYS[2], group.name, value(consumer, 'name'))
    end
    for _, delivery in ipairs(group.pending) do
        local id, consumer, idle_ms, times = unpack(delivery)
        local claim = {'XCLAIM', KEYS[2], group.name, consumer, 0, id, 'IDLE', idle_ms, 'RETRYCOUNT', times, 'FORCE', 'JUSTID'}
        if #redis.call(unpack(claim)) == 0 then  -- of nothing there is no delivery
            return give_up('left', 'entries are gone of which deliveries are in work')
        end
    end
end
if redis.call('EXISTS', KEYS[2]) == 1 then  -- there is none of a stream that never had an entry or a group
    redis.call('XSETID', KEYS[2], newest, 'ENTRIESADDED', string.format('%.0f', added), 'MAXDELETEDID', value(info, 'max-deleted-entry-id'))
    redis.call('PERSIST', KEYS[2])
    -- Freed in the background: of a large stream that takes longer than all of this.
    redis.call('RENAME', KEYS[1], KEYS[3])
    redis.call('RENAME', KEYS[2], KEYS[1])
    redis.call('UNLINK', KEYS[3])
end
return {'rebuilt'}
