-- Trims refused requests that are archived *and* past their retention, with what is remembered about them. While no group
-- `archive` reads the stream, nothing is trimmed; the caps of each source bound what nobody decided about.
-- A request that nobody decided about is decided by this, since it can no longer be released from here: it makes room for others.
--
-- KEYS  1 quarantine  2 quarantine state  3 ledger
-- ARGV  1 retention ms  2 how many at most
-- returns how many entries were removed
-- include id_above
-- include standing
-- include past_retention

local expired = past_retention(KEYS[1], ARGV[1], ARGV[2])
for _, entry in ipairs(expired) do
    redis.call('XDEL', KEYS[1], entry[1])
    local was_decided = redis.call('HDEL', KEYS[2], entry[1])
    redis.call('HDEL', KEYS[2], 'releasing:' .. entry[1])
    if value(entry[2], 'record') == 'request' and was_decided == 0 then
        local whose = (value(entry[2], 'tenant_id') or '') .. ':' .. (value(entry[2], 'source') or '')
        redis.call('HINCRBY', KEYS[3], 'decided:' .. whose, 1)
        redis.call('HINCRBY', KEYS[3], 'quarantine_bytes:' .. whose, -(tonumber(value(entry[2], 'size') or '') or 0))
    end
end
return #expired
