-- Trims the record of what was settled: what is archived goes. While no group `archive` reads it, all but the newest entries go,
-- and are counted: it is a record of events, not the events, and must not fill the log.
--
-- KEYS  1 outcomes  2 ledger
-- ARGV  1 how many entries stay while nobody archives them
-- returns how many entries were removed
-- include standing

if redis.call('EXISTS', KEYS[1]) == 0 then
    return 0
end
for _, group in ipairs(groups_on(KEYS[1])) do
    if group.name == 'archive' then
        return redis.call('XTRIM', KEYS[1], 'MINID', '=', string.format('%s-%.0f', group.first_kept.ms, group.first_kept.n))
    end
end
local removed = redis.call('XTRIM', KEYS[1], 'MAXLEN', '=', ARGV[1])
if removed > 0 then
    redis.call('HINCRBY', KEYS[2], 'dropped:outcomes', removed)
end
return removed
