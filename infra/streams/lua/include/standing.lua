-- Where groups stand on a stream: what the server says of them, and entry ids in their order.

local function value(list, name)
    for j = 1, #list, 2 do
        if list[j] == name then
            return list[j + 1]
        end
    end
end

-- An entry id as something to compare. Milliseconds stay text: somebody may have chosen an id that no Lua number can hold.
local function place(id)
    local ms, n = string.match(id, '(%d+)-(%d+)')
    return {ms = ms, n = tonumber(n)}
end

local function below(one, other)
    if #one.ms ~= #other.ms then
        return #one.ms < #other.ms
    end
    return one.ms < other.ms or (one.ms == other.ms and one.n < other.n)
end

-- The groups on a stream that exists. `settled` is `<entry id>` up to which everything is settled, or `(<entry id>` before which
-- it is; `first_kept` is the lowest place that the group still needs.
local function groups_on(stream)
    local found = {}
    for _, info in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
        local group = {
            name = value(info, 'name'), delivered_to = value(info, 'last-delivered-id'), pending = value(info, 'pending'),
            lag = value(info, 'lag') or nil,
        }
        if group.pending > 0 then
            local lowest = redis.call('XPENDING', stream, group.name)[2]
            group.settled, group.first_kept = '(' .. lowest, place(lowest)
        else
            group.settled, group.first_kept = group.delivered_to, place(group.delivered_to)
            group.first_kept.n = group.first_kept.n + 1
        end
        found[#found + 1] = group
    end
    return found
end
