-- Trims dead letters that are archived *and* past their retention, with what is remembered about them. While no group
-- `archive` reads the stream, nothing is trimmed: a letter is never dropped before it is archived.
-- A letter that nobody decided about is closed by this, since it can no longer be requeued from here.
--
-- KEYS  1 dead  2 dead state  3 ledger
-- ARGV  1 retention ms  2 how many at most
-- returns how many entries were removed
-- include id_above
-- include standing
-- include past_retention

local expired = past_retention(KEYS[1], ARGV[1], ARGV[2])
for _, entry in ipairs(expired) do
    redis.call('XDEL', KEYS[1], entry[1])
    local was_decided = redis.call('HDEL', KEYS[2], entry[1])
    if value(entry[2], 'record') == 'letter' and was_decided == 0 then
        redis.call('HINCRBY', KEYS[3], 'closed:' .. (value(entry[2], 'group') or ''), 1)
    end
end
return #expired
