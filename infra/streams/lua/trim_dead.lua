-- Trims dead letters that are archived *and* past their retention, with what is remembered about them. While no group
-- `archive` reads the stream, nothing is trimmed: a letter is never dropped before it is archived.
-- A letter that nobody decided about is closed by this, since it can no longer be requeued from here.
--
-- KEYS  1 dead  2 dead state  3 ledger
-- ARGV  1 retention ms  2 how many at most
-- returns how many entries were removed
-- include id_above

local function value(list, name)
    for j = 1, #list, 2 do
        if list[j] == name then
            return list[j + 1]
        end
    end
end

-- The newest id that the archive is done with, or nil; with entries in hand, what comes before the first of them.
local function archived_up_to()
    local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])  -- an error while there is no stream
    for _, group in ipairs(groups.err and {} or groups) do
        if value(group, 'name') == 'archive' then
            if value(group, 'pending') > 0 then
                return '(' .. redis.call('XPENDING', KEYS[1], 'archive')[2]
            end
            return value(group, 'last-delivered-id')
        end
    end
end

local mark = archived_up_to()
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
