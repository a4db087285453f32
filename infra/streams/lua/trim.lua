-- Trims a stream below the lowest mark of all its groups: nothing that a group has not settled, and nothing that the
-- archive has not committed, is ever removed. While a declared group is missing, nothing is trimmed at all.
-- On the way it writes down how far each declared group has settled: should it vanish, `declare` puts it back there.
--
-- KEYS  1 stream  2 registry  3 ledger
-- returns how many entries were removed
-- include standing

if redis.call('EXISTS', KEYS[1]) == 0 then
    return 0
end
local declared = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    declared[string.match(field, '^group:(.+)$') or ''] = true
end
declared[''] = nil

local incarnation = redis.call('HGET', KEYS[3], 'incarnation') or ''

-- The archive has its own mark, in the ledger. Removes before it adds, for a log whose memory is full.
local function note(group)
    local field, position = 'at:' .. group.name .. ':' .. string.match(KEYS[1], '%a+$'), incarnation .. '|' .. group.settled
    if group.name ~= 'archive' and declared[group.name] and redis.call('HGET', KEYS[2], field) ~= position then
        redis.call('HDEL', KEYS[2], field)
        redis.call('HSET', KEYS[2], field, position)
    end
end

local present, least = {}, nil
for _, group in ipairs(groups_on(KEYS[1])) do
    note(group)
    present[group.name] = true
    if not least or below(group.first_kept, least) then
        least = group.first_kept
    end
end
if not present['archive'] then
    return 0
end
for group in pairs(declared) do
    if not present[group] then
        return 0
    end
end
return redis.call('XTRIM', KEYS[1], 'MINID', '=', string.format('%s-%.0f', least.ms, least.n))
