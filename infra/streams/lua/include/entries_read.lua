-- What to tell XGROUP about a group that is put at `id` (ENTRIESREAD): how many entries it has read, so that the server still
-- knows its lag. Nil while numbers cannot tell, among entries of a past incarnation: an unknown lag is better than a wrong one.
local function entries_read(stream, id, ledger)
    local function value(list, name)
        for j = 1, #list, 2 do
            if list[j] == name then
                return list[j + 1]
            end
        end
    end
    local added = value(redis.call('XINFO', 'STREAM', stream), 'entries-added')
    local following = redis.call('XRANGE', stream, '(' .. id, '+', 'COUNT', 1)[1]
    if not following then
        return string.format('%.0f', added)
    end
    -- Somebody else's entry has no number, and tonumber must be given something.
    local incarnation, number = value(following[2], 'incarnation'), tonumber(value(following[2], 'sequence') or '')
    if not number or incarnation ~= redis.call('HGET', ledger, 'incarnation') then
        return nil
    end
    local newest = redis.call('HGET', ledger, 'sequence:' .. string.match(stream, '%a+$') .. ':' .. incarnation) or '0'
    return string.format('%.0f', math.max(0, added - (tonumber(newest) - (number - 1))))
end
