-- Counts what somebody else removed from a stream before a group was handed it (KEYS 1 stream, 2 registry, 3 ledger). The registry
-- keeps, in `gaps:<stream>`, what was seen last: {removed = entries ever removed, lives, read = where each group stood as {of, number,
-- id}, walk = a look that has not come to the end}. Who removed more than we did, or what the stream began with, has it looked
-- through; numbers that were there before and are not any more are lost for groups that had not come to them.
-- Removes before it adds. Needs `standing`, `nearest`, `gaps` and `lost`.

local name = string.match(KEYS[1], '%a+$')
local gaps_field = 'gaps:' .. name

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

local function given(incarnation, before)
    return math.max(before, tonumber(redis.call('HGET', KEYS[3], 'sequence:' .. name .. ':' .. incarnation) or '0'))
end

-- What the group was handed since it was seen last, and is gone: counted one by one, by whoever has it in work.
local function gone_in_work(group, after)
    local found, from = 0, '(' .. after
    repeat
        local pending = redis.pcall('XPENDING', KEYS[1], group, from, '+', 1000)
        pending = pending.err and {} or pending
        for _, entry in ipairs(pending) do
            from = '(' .. entry[1]
            found = found + (redis.call('XRANGE', KEYS[1], entry[1], entry[1])[1] and 0 or 1)
        end
    until #pending < 1000
    local names = redis.pcall('HKEYS', names_of_lost(KEYS[3], group))
    for _, what in ipairs(names.err and {} or names) do
        local id = string.match(what, '^events:' .. name .. '|(%d+%-%d+)$')
        found = found + (id and below(place(after), place(id)) and 1 or 0)
    end
    return found
end

local function count_undelivered(group, stood, lives, fresh)
    local since, lost, names = index_of(lives, stood.of), 0, {}
    for i = since or #lives + 1, #lives do
        for _, range in ipairs(without(fresh[i], all_up_to(i == since and stood.number or 0))) do
            lost = lost + range[2] - range[1] + 1
            names[#names + 1] = string.format('events:%s|%s:%.0f-%.0f', name, lives[i].of, range[1], range[2])
        end
    end
    lost = lost > 0 and lost - gone_in_work(group, stood.id) or 0
    if lost > 0 then
        redis.call('HDEL', KEYS[2], gaps_field)  -- written anew below
        redis.call('HINCRBY', KEYS[3], 'lost:' .. group, string.format('%.0f', lost))
        for _, what in ipairs(names) do
            name_lost(KEYS[3], group, what)
        end
    end
end

-- The walk is at its end: what is gone that was not before?
local function compare(seen, declared)
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
        life.given = given(life.of, math.max(life.given, found.top))
        if life.given > found.top then
            found.gone[#found.gone + 1] = {found.top + 1, life.given}
        end
        fresh[i], life.gone = without(found.gone, life.gone), found.gone
    end
    for group, stood in pairs(seen.read) do
        if declared[group] then
            count_undelivered(group, stood, seen.lives, fresh)
        end
    end
end

-- Looks for what is gone, if anything is; returns whether all was looked through. Nothing may be trimmed before.
local function look_for_gaps(seen, incarnation, declared)
    if not index_of(seen.lives, incarnation) then
        seen.lives[#seen.lives + 1] = {of = incarnation, given = 0, gone = {}}
    end
    for _, life in ipairs(seen.lives) do
        life.given = given(life.of, life.given)
    end
    local removed = removed_ever()
    if not seen.walk and removed == seen.removed and begins_as_known(nearest(KEYS[1], 'XRANGE', '-', '+'), seen.lives) then
        return true
    end
    seen.walk = seen.walk or {from = '-', lives = {}, bytes = 0, removed = removed}
    if not walk_on(KEYS[1], seen.walk) then
        return false
    end
    compare(seen, declared)
    seen.removed, seen.walk = seen.walk.removed, nil
    return true
end

-- Where a group stands: before the next entry that there is. What is gone in between is known by now.
local function note_read(seen, group, incarnation)
    local stood = seen.read[group.name]
    if stood and stood.id == group.delivered_to then
        return
    end
    local following = nearest(KEYS[1], 'XRANGE', '(' .. group.delivered_to, '+')
    if #following == 3 then
        seen.read[group.name] = {of = following[2], number = tonumber(following[3]) - 1, id = group.delivered_to}
        seen.removed = index_of(seen.lives, following[2]) and seen.removed or -1  -- never heard of: look through it next time
    elseif #following == 0 then
        seen.read[group.name] = {of = incarnation, number = given(incarnation, 0), id = group.delivered_to}
    end
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
