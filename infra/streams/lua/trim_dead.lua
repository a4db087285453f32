-- Trims dead letters that are archived *and* past their retention, with what is remembered about them. While no group
-- `archive` reads the stream, nothing is trimmed: a letter is never dropped before it is archived.
-- A letter that nobody decided about is closed by this, since it can no longer be requeued from here.
--
-- KEYS  1 dead  2 dead state  3 ledger
-- ARGV  1 retention ms  2 how many at most
-- returns how many entries were removed
-- include id_above
-- include standing

-- What the archive is done with, as the end of a range.
local mark
for _, group in ipairs(redis.call('EXISTS', KEYS[1]) == 1 and groups_on(KEYS[1]) or {}) do
    mark = group.name == 'archive' and group.settled or mark
end
if not mark then
    return 0
end
local expired_ms = server_ms() - tonumber(ARGV[1])
local removed = 0
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', mark, 'COUNT', ARGV[2])) do
    if tonumber(string.match(entry[1], '^%d+')) >= expired_ms then
        break
    end
    redis.call('XDEL', KEYS[1], entry[1])
    local was_decided = redis.call('HDEL', KEYS[2], entry[1])
    if value(entry[2], 'record') == 'letter' and was_decided == 0 then
        redis.call('HINCRBY', KEYS[3], 'closed:' .. (value(entry[2], 'group') or ''), 1)
    end
    removed = removed + 1
end
return removed
