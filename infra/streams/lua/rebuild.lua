-- Builds a stream anew, with the same entries, ids, groups and deliveries in work: XDEL only marks an entry, and its bytes stay in
-- memory, and in the server's files, for as long as a neighbour in its node does.
-- Built aside and renamed at the end, so that an error or a full memory changes nothing.
--
-- KEYS  1 stream  2 a name aside (same hash tag)
-- ARGV  1 the most entries that are moved: the server does nothing else meanwhile
-- returns 1 when it was rebuilt, or there is nothing | 0 when it has more entries, or deliveries in work of entries that are gone
-- include standing

if redis.call('EXISTS', KEYS[1]) == 0 then
    return 1
end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
if value(info, 'length') > tonumber(ARGV[1]) then
    return 0
end
local groups = {}
for _, found in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
    local group = {
        name = value(found, 'name'), at = value(found, 'last-delivered-id'), read = value(found, 'entries-read'),
        consumers = redis.call('XINFO', 'CONSUMERS', KEYS[1], value(found, 'name')), pending = {},
    }
    local from = '-'
    repeat
        local some = redis.call('XPENDING', KEYS[1], group.name, from, '+', 1000)
        for _, delivery in ipairs(some) do
            if not redis.call('XRANGE', KEYS[1], delivery[1], delivery[1])[1] then
                return 0
            end
            group.pending[#group.pending + 1] = delivery
            from = '(' .. delivery[1]
        end
    until #some < 1000
    groups[#groups + 1] = group
end

redis.call('DEL', KEYS[2])
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do
    redis.call('XADD', KEYS[2], entry[1], unpack(entry[2]))
end
local last = value(info, 'last-generated-id')
if redis.call('EXISTS', KEYS[2]) == 0 and last ~= '0-0' then
    redis.call('XADD', KEYS[2], last, 'a', 'b')
    redis.call('XDEL', KEYS[2], last)
end
for _, group in ipairs(groups) do
    redis.call('XGROUP', 'CREATE', KEYS[2], group.name, group.at, 'MKSTREAM', unpack(group.read and {'ENTRIESREAD', group.read} or {}))
    for _, consumer in ipairs(group.consumers) do
        redis.call('XGROUP', 'CREATECONSUMER', KEYS[2], group.name, value(consumer, 'name'))
    end
    for _, delivery in ipairs(group.pending) do
        local id, consumer, idle_ms, count = unpack(delivery)
        redis.call('XCLAIM', KEYS[2], group.name, consumer, 0, id, 'IDLE', idle_ms, 'RETRYCOUNT', count, 'FORCE', 'JUSTID')
    end
end
local added, deleted = string.format('%.0f', value(info, 'entries-added')), value(info, 'max-deleted-entry-id')
redis.call('XSETID', KEYS[2], last, 'ENTRIESADDED', added, 'MAXDELETEDID', deleted)
redis.call('RENAME', KEYS[2], KEYS[1])
return 1
