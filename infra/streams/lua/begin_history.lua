-- Makes a group that has no past on the streams of one shard: at the end of each event stream, and writes down where that was, in the
-- same step. What came before is brought to it from the archive, what comes after it reads itself: no gap and no overlap.
-- A worker may have made the group a moment before; while it was handed nothing, it is put there all the same.
--
-- KEYS  1 registry  2 ledger  3 the group's replays  4 its retry stream  5 its replay stream  6.. event streams
-- ARGV  1 group  2 kind  3 replay
-- returns 'made' | 'known' (the group was handed something already, so nothing was done)
-- include id_above
-- include standing
-- include nearest
-- include stands

local group, replay = ARGV[1], ARGV[3]
local incarnation = redis.call('HGET', KEYS[2], 'incarnation')

local function name_of(stream)
    return string.match(stream, '%a+$')
end

local function mark_field(stream)
    return 'mark:' .. replay .. ':' .. name_of(stream)
end

if redis.call('HEXISTS', KEYS[3], mark_field(KEYS[6])) == 1 then
    return 'made'  -- by an earlier call
end

local function group_on(stream)
    for _, one in ipairs(redis.call('EXISTS', stream) == 1 and groups_on(stream) or {}) do
        if one.name == group then
            return one
        end
    end
end

local present = {}
for i = 4, #KEYS do
    present[i] = group_on(KEYS[i])
    local was_handed = present[i] and (present[i].pending > 0 or present[i].delivered_to ~= '0-0')
    if was_handed or (i > 5 and redis.call('HEXISTS', KEYS[1], 'at:' .. group .. ':' .. name_of(KEYS[i])) == 1) then
        return 'known'
    end
end

-- Of every incarnation that the ledger knows, those of the past among them.
local function incarnations_of(stream)
    local known = {}
    for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
        known[#known + 1] = string.match(field, '^sequence:' .. name_of(stream) .. ':(%w+)$')
    end
    return #known > 0 and known or {incarnation}
end

local function put_at_end(stream, one)
    local id, added = '0-0', nil
    if redis.call('EXISTS', stream) == 1 then
        local info = redis.call('XINFO', 'STREAM', stream)
        id, added = value(info, 'last-generated-id'), string.format('%.0f', value(info, 'entries-added'))
    end
    local put = one and {'XGROUP', 'SETID', stream, group, id} or {'XGROUP', 'CREATE', stream, group, id, 'MKSTREAM'}
    if added then
        put[#put + 1], put[#put + 2] = 'ENTRIESREAD', added
    end
    redis.call(unpack(put))
    local number = given(KEYS[2], name_of(stream), incarnation)
    redis.call('HSET', KEYS[3], mark_field(stream), cjson.encode({
        incarnation = incarnation, entry_id = id, number = string.format('%.0f', number), known = incarnations_of(stream),
    }))
    -- Should the group vanish it comes back here, and not at the start of what there is.
    redis.call('HSET', KEYS[1], 'at:' .. group .. ':' .. name_of(stream), incarnation .. '|' .. id)
    local stands = standing_of(stream, KEYS[2], incarnation, id, 0)
    if stands then
        redis.call('HSET', KEYS[1], 'made:' .. group .. ':' .. name_of(stream), cjson.encode(stands))
    end
end

redis.call('HSET', KEYS[1], 'group:' .. group, ARGV[2], 'alive:' .. group, string.format('%.0f', server_ms()))
for i = 4, #KEYS do
    if i > 5 then
        put_at_end(KEYS[i], present[i])
    elseif not present[i] then
        redis.call('XGROUP', 'CREATE', KEYS[i], group, '0', 'MKSTREAM')
    end
end
return 'made'
