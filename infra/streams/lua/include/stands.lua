-- Up to which number a group was handed a stream. Needs `nearest` and `standing`.

local function given(ledger, name, incarnation)
    return tonumber(redis.call('HGET', ledger, 'sequence:' .. name .. ':' .. incarnation) or '0')
end

local function outcomes_beside(ledger)
    return string.match(ledger, '^(.*)ledger$') .. 'outcomes'
end

-- {of = incarnation, number, id = entry id, pending, outcomes = the newest record of what was settled}: it stands before the next
-- entry that there is, and what is gone in between is gone already. Nil where that cannot be told.
local function standing_of(stream, ledger, incarnation, delivered_to, pending)
    local following = nearest(stream, 'XRANGE', '(' .. delivered_to, '+')
    if #following == 1 then
        return nil
    end
    local info = redis.pcall('XINFO', 'STREAM', outcomes_beside(ledger))  -- an error while there is no stream
    return {
        of = following[2] or incarnation,
        number = following[3] and tonumber(following[3]) - 1 or given(ledger, string.match(stream, '%a+$'), incarnation),
        id = delivered_to, pending = pending, outcomes = info.err and '0-0' or value(info, 'last-generated-id'),
    }
end
