-- Forgets past incarnations whose numbers are all archived, or counted as lost, for longer than a delivery is remembered.
--
-- KEYS  1 ledger
-- ARGV  stream name, incarnation, ...
-- returns how many fields went
local gone = 0
for i = 1, #ARGV, 2 do
    if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[i + 1] then
        local of = ARGV[i] .. ':' .. ARGV[i + 1]
        gone = gone + redis.call('HDEL', KEYS[1], 'sequence:' .. of, 'archived:' .. of)
    end
end
return gone
