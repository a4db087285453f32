-- Renews leases of one stream: sets the idle time back to 0 for the entries that the consumer still owns.
-- One whose entry was trimmed beneath the group is left as it is: to renew it would drop its pending record, and with it what the
-- worker that runs it is about to settle. Nobody may claim it before a lease has passed; whoever does counts it as lost.
--
-- KEYS  1 stream
-- ARGV  1 group  2 consumer  3.. per lease: entry id, delivery count
-- returns the places (the first is 1) of the leases that were lost
-- include standing

local function is_owned(id, count)
    local pending = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
    return pending and pending[2] == ARGV[2] and pending[4] == tonumber(count)
end

-- Bodies may be large: an entry is only read where somebody has deleted entries behind it.
local info
local function is_there(id)
    info = info or redis.call('XINFO', 'STREAM', KEYS[1])
    if value(info, 'length') == 0 or below(place(id), place(value(info, 'recorded-first-entry-id'))) then
        return false
    end
    return below(place(value(info, 'max-deleted-entry-id')), place(id)) or redis.call('XRANGE', KEYS[1], id, id)[1] ~= nil
end

local lost = {}
for i = 3, #ARGV, 2 do
    local id = ARGV[i]
    if not is_owned(id, ARGV[i + 1]) then
        lost[#lost + 1] = (i - 1) / 2
    elseif is_there(id) then
        -- JUSTID: a renewal is not a delivery and must not be counted as one.
        redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'JUSTID')
    end
end
return lost
