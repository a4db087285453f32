-- Erases entries of an event stream that are archived: acks them for every group, deletes them, and writes down which numbers they had.
-- Nobody counts those as lost: the look for gaps is told that they are gone. A worker that has one in hand finds its lease lost.
-- What the archive has not come to is left alone. Doing it again is harmless.
--
-- KEYS  1 stream  2 registry  3 ledger  4 erased; outcomes and the names of what groups lost stand beside the ledger
-- ARGV  entry ids, in their order
-- returns how many entries went, or -1 when the stream has to be looked through first: call again
-- include standing
-- include nearest
-- include stands
-- include lost
-- include gaps
-- include handed
-- include undelivered

if redis.call('EXISTS', KEYS[1]) == 0 then
    return 0
end
local declared = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    declared[string.match(field, '^group:(.+)$') or ''] = true
end
declared[''] = nil

-- First what is gone already and was not erased: afterwards the two could not be told apart.
local incarnation = redis.call('HGET', KEYS[3], 'incarnation') or ''
local seen, before = recalled()
if not look_for_gaps(seen, incarnation, declared) then
    remember(seen, before)
    return -1
end

local groups, mark = groups_on(KEYS[1]), nil
for _, group in ipairs(groups) do
    mark = group.name == 'archive' and place(group.delivered_to) or mark
end

local function number_of(entry)
    local of, number = value(entry[2], 'incarnation') or '', value(entry[2], 'sequence') or ''
    if string.match(of, '^%w+$') and string.match(number, '^%d+$') and #number <= 14 then
        return of, tonumber(number)
    end
end

-- By incarnation the numbers that go, as ranges.
local ids, going = {}, {}
for _, id in ipairs(ARGV) do
    local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
    if entry and mark and not below(mark, place(id)) then
        ids[#ids + 1] = id
        local of, number = number_of(entry)
        if of then
            going[of] = going[of] or {}
            local last = going[of][#going[of]]
            if last and last[2] + 1 == number then
                last[2] = number
            else
                going[of][#going[of] + 1] = {number, number}
            end
        end
    end
end
if #ids == 0 then
    remember(seen, before)
    return 0
end

-- Both in their order; ranges that touch become one.
local function together(ranges, others)
    local all, merged = {}, {}
    for _, list in ipairs({ranges, others}) do
        for _, range in ipairs(list) do
            all[#all + 1] = {range[1], range[2]}
        end
    end
    table.sort(all, function(one, other) return one[1] < other[1] end)
    for _, range in ipairs(all) do
        local last = merged[#merged]
        if last and range[1] <= last[2] + 1 then
            last[2] = math.max(last[2], range[2])
        else
            merged[#merged + 1] = range
        end
    end
    return merged
end

-- Removes before it adds, for a log whose memory is full.
for _, group in ipairs(groups) do
    redis.call('XACK', KEYS[1], group.name, unpack(ids))
end
local removed = redis.call('XDEL', KEYS[1], unpack(ids))
seen.removed = seen.removed + removed
for of, ranges in pairs(going) do
    local life = seen.lives[index_of(seen.lives, of) or 0]
    if life then
        life.gone = together(life.gone, ranges)
    end
    for _, range in ipairs(ranges) do
        redis.call('HSET', KEYS[4], string.format('%s|%s|%.0f', name, of, range[1]), string.format('%.0f', range[2]))
    end
end
for _, group in ipairs(groups_on(KEYS[1])) do
    if group.name ~= 'archive' and declared[group.name] then
        note_read(seen, group, incarnation)
    end
end
remember(seen, before)
return removed
