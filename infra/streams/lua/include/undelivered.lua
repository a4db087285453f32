-- Counts what somebody else removed from a stream before a group was handed it (KEYS 1 stream, 2 registry, 3 ledger). The registry
-- keeps, in `gaps:<stream>`, what was seen last: {removed = entries ever removed, lives, read = where each group stood as {of, number,
-- id, pending, outcomes}, walk = a look that has not come to the end}. Who removed more than we did, or what the stream began with, has it looked
-- through; numbers that were there before and are not any more are lost for groups that had not come to them.
-- Removes before it adds. Needs `standing`, `nearest`, `stands`, `gaps`, `lost` and `handed`.

local name = string.match(KEYS[1], '%a+$')
local gaps_field = 'gaps:' .. name
-- Of one disaster; the count is of all.
local most_named = 1000
local most_walks = 10

local function recalled()
    local is_json, seen = pcall(cjson.decode, redis.call('HGET', KEYS[2], gaps_field) or '')
    if is_json and type(seen) == 'table' then
        return seen, cjson.encode(seen)
    end
    return {removed = 0, lives = {}, read = {}}, ''
end

-- Writes nothing when nothing is new: this is done every second.
local function remember(seen, before)
    local text = cjson.encode(seen)
    if text ~= before then
        redis.call('HDEL', KEYS[2], gaps_field)
        redis.call('HSET', KEYS[2], gaps_field, text)
    end
end

local function removed_ever()
    if redis.call('EXISTS', KEYS[1]) == 0 then
        return 0
    end
    local info = redis.call('XINFO', 'STREAM', KEYS[1])
    return value(info, 'entries-added') - value(info, 'length')
end

-- The ranges without their first numbers: a group is handed a stream in its order.
local function without_first(ranges, many)
    local left = {}
    for _, range in ipairs(ranges) do
        local skipped = math.min(many, range[2] - range[1] + 1)
        many = many - skipped
        if range[1] + skipped <= range[2] then
            left[#left + 1] = {range[1] + skipped, range[2], of = range.of}
        end
    end
    return left
end

local function count_undelivered(group, stood, stands, lives, fresh)
    local since, missed = index_of(lives, stood.of), {}
    for i = since or #lives + 1, #lives do
        for _, range in ipairs(without(fresh[i], all_up_to(i == since and stood.number or 0))) do
            range.of = lives[i].of
            missed[#missed + 1] = range
        end
    end
    missed = #missed > 0 and without_first(missed, handed_and_gone(group, stood, stands, lives)) or {}
    local lost = 0
    if #missed > 0 then
        redis.call('HDEL', KEYS[2], gaps_field)  -- removed before anything is added, and written anew when all is done
    end
    for i, range in ipairs(missed) do
        lost = lost + range[2] - range[1] + 1
        if i <= most_named then
            name_lost(KEYS[3], group, string.format('events:%s|%s:%.0f-%.0f', name, range.of, range[1], range[2]))
        end
    end
    if lost > 0 then
        redis.call('HINCRBY', KEYS[3], 'lost:' .. group, string.format('%.0f', lost))
    end
end

-- The walk is at its end: what is gone that was not before?
local function compare(seen, incarnation, declared)
    local fresh, walked = {}, seen.walk.lives
    local at = #seen.lives
    for i = #walked, 1, -1 do
        at = index_of(seen.lives, walked[i].of) or at
        if not index_of(seen.lives, walked[i].of) then  -- it began and ended unseen: what is gone of it always was, for all we know
            table.insert(seen.lives, at, {of = walked[i].of, given = walked[i].top, gone = walked[i].gone})
        end
    end
    for i, life in ipairs(seen.lives) do
        local found = walked[index_of(walked, life.of) or 0] or {gone = {}, top = 0}
        life.given = math.max(life.given, found.top, given(KEYS[3], name, life.of))
        if life.given > found.top then
            found.gone[#found.gone + 1] = {found.top + 1, life.given}
        end
        fresh[i], life.gone = without(found.gone, life.gone), found.gone
    end
    local stands = {}
    for _, group in ipairs(redis.call('EXISTS', KEYS[1]) == 1 and groups_on(KEYS[1]) or {}) do
        stands[group.name] = standing_of(KEYS[1], KEYS[3], incarnation, group.delivered_to, group.pending)
    end
    for group, stood in pairs(seen.read) do
        if declared[group] then
            count_undelivered(group, stood, stands[group], seen.lives, fresh)
        end
    end
end

-- Looks for what is gone, if anything is; returns whether all was looked through. Nothing may be trimmed before.
local function look_for_gaps(seen, incarnation, declared)
    if not index_of(seen.lives, incarnation) then
        seen.lives[#seen.lives + 1] = {of = incarnation, given = 0, gone = {}}
    end
    for _, life in ipairs(seen.lives) do
        life.given = math.max(life.given, given(KEYS[3], name, life.of))
    end
    local removed = removed_ever()
    if not seen.walk and removed == seen.removed and begins_as_known(nearest(KEYS[1], 'XRANGE', '-', '+'), seen.lives) then
        return true
    end
    seen.walk = seen.walk or {from = '-', lives = {}, bytes = 0, removed = removed}
    if not walk_on(KEYS[1], seen.walk) then
        return false
    end
    -- What was removed behind the walk is not known yet, and a group that went on meanwhile would be noted as past it. Somebody who
    -- never stops removing does not keep us here for ever.
    local again = (seen.walk.again or 0) + 1
    if seen.walk.removed ~= removed and again <= most_walks then
        seen.walk = {from = '-', lives = {}, bytes = 0, removed = removed, again = again}
        return false
    end
    compare(seen, incarnation, declared)
    seen.removed, seen.walk = seen.walk.removed, nil
    return true
end

local function note_read(seen, group, incarnation)
    local stood = seen.read[group.name]
    if stood and stood.id == group.delivered_to and stood.pending == group.pending then
        return
    end
    local stands = standing_of(KEYS[1], KEYS[3], incarnation, group.delivered_to, group.pending)
    seen.read[group.name] = stands or stood
    if stands and not index_of(seen.lives, stands.of) then
        seen.removed = -1  -- a life that was never heard of: look through it next time
    end
end

-- Where a group stood when it was made, if it was not seen since: `declare` has noted it.
local function note_made(seen, group)
    local field = 'made:' .. group .. ':' .. name
    local is_json, stood = pcall(cjson.decode, redis.call('HGET', KEYS[2], field) or '')
    if is_json and type(stood) == 'table' and not seen.read[group] then
        seen.read[group] = stood
        if not index_of(seen.lives, stood.of) then
            seen.lives[#seen.lives + 1] = {of = stood.of, given = 0, gone = {}}
        end
    end
    redis.call('HDEL', KEYS[2], field)
end

-- Forgets groups that are no more, and lives that are gone and that every group has behind it.
local function forget_the_past(seen, incarnation, declared)
    local first = #seen.lives
    for group, stood in pairs(seen.read) do
        if not declared[group] then
            seen.read[group] = nil
        else
            first = math.min(first, index_of(seen.lives, stood.of) or first)
        end
    end
    for _ = 1, first - 1 do
        if is_all_gone(seen.lives[1]) and seen.lives[1].of ~= incarnation then
            table.remove(seen.lives, 1)
        end
    end
end
