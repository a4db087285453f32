-- Gives back to a group what was taken off the log before it had settled it: appends the events to its replay stream, and shortens what
-- it is owed by them, both or neither. A step is one event, or numbers that have no event any more; what it finds otherwise than the
-- caller knew (somebody spilled more, or gave it back meanwhile) ends the call.
--
-- KEYS  1 replay stream of the group  2 what it is owed  3 its retry stream  4 ledger  5 registry; names of what it lost stand beside it
-- ARGV  1 group  2 how many entries may wait on the stream  3 how many bytes
--       4.. the steps, each: field of what is owed, its value before, its value after or empty when nothing is left of it, how many of
--       the owed events that are, those among them that are in no table as `<what>=<how many>` or empty, the entry id it had, how
--       many texts follow (0: there is no event), fields and values
-- returns {'handed' | 'full' | 'moved' | 'gone', how many events were appended, how many steps were made}
-- include id_above
-- include continued
-- include lost

local group = ARGV[1]
if redis.call('HEXISTS', KEYS[5], 'group:' .. group) == 0 then
    return {'gone', 0, 0}
end
local now_ms = server_ms()
local room = room_on(KEYS[1], KEYS[4], tonumber(ARGV[2]), tonumber(ARGV[3]), now_ms)
local least = newest_id(KEYS[3])

local values, order, less, missing = {}, {}, 0, {}
local function value_of(field)
    if values[field] == nil then
        values[field] = redis.call('HGET', KEYS[2], field)
        order[#order + 1] = field
    end
    return values[field]
end

local status, appended, steps, failure, at = 'handed', 0, 0, nil, 4
while at <= #ARGV do
    local field, before, after, texts = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 6])
    if value_of(field) ~= before then
        status = 'moved'
        break
    end
    if texts > 0 then
        if appended >= room then
            status = 'full'
            break
        end
        failure = continue_entry(KEYS[1], later_of(ARGV[at + 5], least), now_ms, unpack(ARGV, at + 7, at + 6 + texts))
        if failure then
            break
        end
        appended = appended + 1
    end
    if ARGV[at + 4] ~= '' then
        missing[#missing + 1] = ARGV[at + 4]
    end
    values[field], less, steps, at = after, less + tonumber(ARGV[at + 3]), steps + 1, at + 7 + texts
end
if failure and steps == 0 then
    return failure
end
if steps > 0 then
    for _, field in ipairs(order) do
        if values[field] == '' then
            redis.call('HDEL', KEYS[2], field)
        elseif values[field] then
            redis.call('HSET', KEYS[2], field, values[field])
        end
    end
    -- Never below nothing: what is owed was counted when it was taken.
    less = math.min(less, tonumber(redis.call('HGET', KEYS[4], 'owed:' .. group) or '0'))
    if less > 0 then
        redis.call('HINCRBY', KEYS[4], 'owed:' .. group, string.format('-%.0f', less))
    end
    for _, one in ipairs(missing) do
        local what, many = string.match(one, '^(.*)=(%d+)$')
        name_lost(KEYS[4], group, what)
        redis.call('HINCRBY', KEYS[4], 'lost:' .. group, many)
    end
end
return {status, appended, steps}
