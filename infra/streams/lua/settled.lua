-- Up to where each durable group has settled everything on the event streams of a shard, in terms of the log's own numbers: the next
-- entry that it needs, less one. Reads only. The archive notes it in its commits, since a log that is wiped forgets it.
--
-- KEYS  1 registry  2 ledger  3.. event streams
-- returns {stream, group, incarnation, entry id, number} for each stream and group where that can be told
-- include standing
-- include nearest
-- include stands

local incarnation, found = redis.call('HGET', KEYS[2], 'incarnation') or '', {}

-- Where the group goes on, and the entry id up to which it has settled everything.
local function goes_on(stream, group)
    if group.pending == 0 then
        return '(' .. group.delivered_to, group.delivered_to
    end
    local before = redis.call('XREVRANGE', stream, group.settled, '-', 'COUNT', 1)[1]
    return string.sub(group.settled, 2), before and before[1] or '0-0'
end

for i = 3, #KEYS do
    local stream, name = KEYS[i], string.match(KEYS[i], '%a+$')
    for _, group in ipairs(redis.call('EXISTS', stream) == 1 and groups_on(stream) or {}) do
        if group.name ~= 'archive' and redis.call('HGET', KEYS[1], 'group:' .. group.name) == 'durable' then
            local from, settled = goes_on(stream, group)
            local following = nearest(stream, 'XRANGE', from, '+')
            if #following ~= 1 then
                local of = following[2] or incarnation
                local number = following[3] and tonumber(following[3]) - 1 or given(KEYS[2], name, of)
                found[#found + 1] = {name, group.name, of, settled, number}
            end
        end
    end
end
return found
