-- Renews leases of one stream: sets the idle time back to 0 for the entries that the consumer still owns.
--
-- KEYS  1 stream
-- ARGV  1 group  2 consumer  3.. per lease: entry id, delivery count
-- returns per lease 1 (renewed) or 0 (lost)
local results = {}
for i = 3, #ARGV, 2 do
    local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)[1]
    local owned = pending and pending[2] == ARGV[2] and pending[4] == tonumber(ARGV[i + 1])
    if owned then
        -- JUSTID: a renewal is not a delivery and must not be counted as one.
        redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
    end
    results[#results + 1] = owned and 1 or 0
end
return results
