-- Writes of `delivery.once`, made in the step that acks their delivery (KEYS as the writes say, by their places there).
-- `decided` is {index = place of the set of names, event = its id, writes = {{key = place, kind, name, field, value}, ...}}.
-- The values of one delivery are of different fields, so each can be judged by itself before the first of them is made.

local once_types = {counts = 'hash', values = 'hash', members = 'set'}

local function is_once(decided)
    if type(decided) ~= 'table' or not KEYS[decided.index] or type(decided.writes) ~= 'table' then
        return false
    end
    for _, write in ipairs(decided.writes) do
        if not (KEYS[write.key] and once_types[write.kind]) then
            return false
        end
    end
    return true
end

local function other_type(key, wanted)
    local found = redis.call('TYPE', key).ok
    return found ~= 'none' and found ~= wanted and key .. ' is a ' .. found .. ' instead of a ' .. wanted
end

-- Why not all of the writes can be made; nil when they can.
local function once_refusal(decided)
    local refusal = other_type(KEYS[decided.index], 'set')
    for _, write in ipairs(decided.writes) do
        refusal = refusal or other_type(KEYS[write.key], once_types[write.kind])
        local before = not refusal and write.kind == 'counts' and redis.call('HGET', KEYS[write.key], write.field)
        -- From 2^53 on Lua does not count exactly any more.
        if before and not (string.match(before, '^%-?%d+$') and math.abs(tonumber(before) + tonumber(write.value)) < 2 ^ 53) then
            refusal = 'the count ' .. write.name .. ' cannot go from ' .. before .. ' by ' .. write.value
        end
    end
    return refusal or nil
end

local function write_once(decided)
    for _, write in ipairs(decided.writes) do
        local key = KEYS[write.key]
        if write.kind == 'counts' then
            redis.call('HINCRBY', key, write.field, write.value)
        elseif write.kind == 'members' then
            redis.call('SADD', key, write.field)
        else
            -- Event ids grow with time: an older event that comes late does not undo what a newer one has set.
            local before = redis.call('HGET', key, write.field)
            if not before or string.sub(before, 1, #decided.event) <= decided.event then
                redis.call('HSET', key, write.field, decided.event .. write.value)
            end
        end
        redis.call('SADD', KEYS[decided.index], write.kind .. ':' .. write.name)
    end
end
