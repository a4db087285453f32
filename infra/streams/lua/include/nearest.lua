-- The nearest entry that has a number, from one end of a range towards the other. Foreign entries have no number; a thousand of
-- them are passed over, and the caller goes on from there.
-- Returns {entry id, incarnation, number as text} | {entry id passed over last} | {} when the range has no more.
local function nearest(stream, command, from, to)
    local last
    local count = 1  -- nearly always the first one has a number, and its neighbours may be large
    for _ = 1, 100 do
        local entries = redis.call(command, stream, from, to, 'COUNT', count)
        for _, entry in ipairs(entries) do
            last = entry[1]
            local fields = {}
            for i = 1, #entry[2], 2 do
                fields[entry[2][i]] = entry[2][i + 1]
            end
            local incarnation, number = fields.incarnation or '', fields.sequence or ''
            if string.match(incarnation, '^%w+$') and string.match(number, '^%d+$') and #number <= 15 then
                return {last, incarnation, number}
            end
        end
        if #entries < count then
            return {}
        end
        from, count = '(' .. last, 10
    end
    return {last}
end
