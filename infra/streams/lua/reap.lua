-- Removes consumers of a group that have been silent for long and hold nothing; whoever holds something is claimed from first.
-- Looked at and removed in one script: XGROUP DELCONSUMER drops what is pending, and a consumer may come back at any moment.
--
-- KEYS  1 stream
-- ARGV  1 group  2 milliseconds of silence
-- returns how many were removed
local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])  -- an error while there is no stream or no group
local removed = 0
for _, info in ipairs(consumers.err and {} or consumers) do
    local facts = {}
    for i = 1, #info, 2 do
        facts[info[i]] = info[i + 1]
    end
    if facts.pending == 0 and facts.idle > tonumber(ARGV[2]) then
        redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], facts.name)
        removed = removed + 1
    end
end
return removed
