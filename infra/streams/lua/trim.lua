-- Trims a stream below the lowest mark of all its groups: nothing that a group has not settled, and nothing that the
-- archive has not committed, is ever removed. While a declared group is missing, nothing is trimmed at all.
-- On the way it writes down how far each declared group has settled: should it vanish, `declare` puts it back there. And it counts
-- what somebody else removed before a group was handed it; while that is looked for, nothing is trimmed either.
--
-- KEYS  1 stream  2 registry  3 ledger; outcomes and the names of what groups lost stand beside the ledger
-- returns how many entries were removed, or -1 when there is more to look through: call again
-- include standing
-- include nearest
-- include stands
-- include lost
-- include gaps
-- include handed
-- include undelivered

if redis.call('EXISTS', KEYS[1]) == 0 and redis.call('HEXISTS', KEYS[2], gaps_field) == 0 then
    return 0
end
local declared, made = {}, {}
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    declared[string.match(field, '^group:(.+)$') or ''] = true
    made[string.match(field, '^made:(.+):' .. name .. '$') or ''] = true
end
declared[''], made[''] = nil, nil

local incarnation = redis.call('HGET', KEYS[3], 'incarnation') or ''
local seen, before = recalled()
for group in pairs(made) do
    note_made(seen, group)
end
if incarnation ~= '' and not look_for_gaps(seen, incarnation, declared) then
    remember(seen, before)
    return -1
end

-- The archive has its own mark, in the ledger. Removes before it adds, for a log whose memory is full.
local function note(group)
    local field, position = 'at:' .. group.name .. ':' .. name, incarnation .. '|' .. group.settled
    if group.name == 'archive' or not declared[group.name] then
        return
    end
    note_read(seen, group, incarnation)
    if redis.call('HGET', KEYS[2], field) ~= position then
        redis.call('HDEL', KEYS[2], field)
        redis.call('HSET', KEYS[2], field, position)
    end
end

local present, least = {}, nil
for _, group in ipairs(redis.call('EXISTS', KEYS[1]) == 1 and groups_on(KEYS[1]) or {}) do
    note(group)
    present[group.name] = true
    if not least or below(group.first_kept, least) then
        least = group.first_kept
    end
end
for group in pairs(declared) do
    present['archive'] = present['archive'] and present[group]
end
local removed = 0
if present['archive'] then
    removed = redis.call('XTRIM', KEYS[1], 'MINID', '=', string.format('%s-%.0f', least.ms, least.n))
end
if incarnation ~= '' then
    if removed > 0 then
        seen.removed = seen.removed + removed
        begin_at(nearest(KEYS[1], 'XRANGE', '-', '+'), seen.lives)
    end
    forget_the_past(seen, incarnation, declared)
    remember(seen, before)
end
return removed
