local function names_of_lost(ledger, group)
    return string.match(ledger, '^(.*)ledger$') .. 'lost:' .. group
end

-- Names a loss in the group's hash `lost` beside the ledger: that is how a person finds the event in the archive. Ten thousand
-- names at most, so that a disaster cannot fill the memory; a name that cannot be kept does not keep the loss from being counted.
local function name_lost(ledger, group, what)
    local names, now = names_of_lost(ledger, group), redis.call('TIME')
    local known = redis.pcall('HLEN', names)
    if type(known) == 'number' and known < 10000 then
        local noticed_ms = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
        redis.pcall('HSET', names, what, noticed_ms)
    end
end

-- Counts a delivery whose entry was trimmed beneath its group, and names it.
local function count_lost(ledger, group, stream, id)
    redis.call('HINCRBY', ledger, 'lost:' .. group, 1)
    name_lost(ledger, group, string.match(stream, '}:(.+)$') .. '|' .. id)
end
