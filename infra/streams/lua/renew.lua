-- Renews leases of one stream: sets the idle time back to 0 for the entries that the consumer still owns.
-- The server drops the pending record of an entry that was trimmed beneath the group; that is a loss, and counted.
--
-- KEYS  1 stream  2 ledger
-- ARGV  1 group  2 consumer  3.. per lease: entry id, delivery count
-- returns the places (the first is 1) of the leases that were lost
-- include lost

local lost = {}
for i = 3, #ARGV, 2 do
    local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)[1]
    local renewed = 0
    if pending and pending[2] == ARGV[2] and pending[4] == tonumber(ARGV[i + 1]) then
        -- JUSTID: a renewal is not a delivery and must not be counted as one.
        renewed = #redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
        if renewed == 0 then
            count_lost(KEYS[2], ARGV[1], KEYS[1], ARGV[i])
        end
    end
    if renewed == 0 then
        lost[#lost + 1] = (i - 1) / 2
    end
end
return lost
