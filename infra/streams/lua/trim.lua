-- Trims a stream below the lowest mark of all its groups: nothing that a group has not settled, and nothing that the
-- archive has not committed, is ever removed. While a declared group is missing, nothing is trimmed at all.
--
-- KEYS  1 stream  2 registry
-- returns how many entries were removed
local function value(list, name)
    for j = 1, #list, 2 do
        if list[j] == name then
            return list[j + 1]
        end
    end
end

local function order(id)
    local ms, n = string.match(id, '(%d+)-(%d+)')
    return ms, tonumber(n)
end

-- Milliseconds stay text: somebody may have chosen an entry id that no Lua number can hold.
local function below(ms, n, other_ms, other_n)
    if #ms ~= #other_ms then
        return #ms < #other_ms
    end
    return ms < other_ms or (ms == other_ms and n < other_n)
end

if redis.call('EXISTS', KEYS[1]) == 0 then
    return 0
end
local present, least_ms, least_n = {}, nil, nil
for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
    local name = value(group, 'name')
    present[name] = true
    local ms, n
    if value(group, 'pending') > 0 then
        ms, n = order(redis.call('XPENDING', KEYS[1], name)[2])
    else
        ms, n = order(value(group, 'last-delivered-id'))
        n = n + 1
    end
    if not least_ms or below(ms, n, least_ms, least_n) then
        least_ms, least_n = ms, n
    end
end
if not present['archive'] then
    return 0
end
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    local declared = string.match(field, '^group:(.+)$')
    if declared and not present[declared] then
        return 0
    end
end
return redis.call('XTRIM', KEYS[1], 'MINID', '=', string.format('%s-%.0f', least_ms, least_n))
