-- Takes what is archived away from groups that lag, so that the stream can be trimmed: writes down what each is owed, acks it,
-- and puts the group at the archived mark. Nothing above that mark is touched; a worker that has such an entry in hand finds
-- that its lease is lost. A group with less than a tenth of the worst one's backlog is spared: the others are put no further
-- than where it stands, which frees nearly as much.
-- Removes before it adds, since this is for a log whose memory is full; whatever could fail is read before the first removal.
-- One call takes a bounded number of pending entries, or a range of one incarnation, of each group.
--
-- KEYS  1 stream  2 ledger  3.. what is owed to each group
-- ARGV  1 how many pending entries at most  2 the worst backlog that an earlier call found, or 0: whom that spared stays spared
--       3.. the groups, in the order of the keys
-- returns {how many events became owed, 1 when there is more to take, else 0, the worst backlog}
-- include standing
-- include entries_read
-- include nearest

local stream, ledger, name = KEYS[1], KEYS[2], string.match(KEYS[1], '%a+$')
local mark = redis.call('HGET', ledger, 'archived:' .. name .. ':' .. (redis.call('HGET', ledger, 'incarnation') or ''))
if not mark or redis.call('EXISTS', stream) == 0 then
    return {0, 0, 0}
end
local target = string.match(mark, '^[^|]+')

local function not_above(id, other)
    return not below(place(other), place(id))
end

-- Everything up to here is settled, as an entry id: a group with entries in work has settled what is before the first of them.
local function settled_up_to(group)
    if string.sub(group.settled, 1, 1) ~= '(' then
        return group.settled
    end
    local before = redis.call('XREVRANGE', stream, group.settled, '-', 'COUNT', 1)[1]
    return before and before[1] or '0-0'
end

local owed_to, worst = {}, tonumber(ARGV[2])
for i = 3, #ARGV do
    redis.call('HLEN', KEYS[i])  -- an error, before anything is removed, when it is no hash
    owed_to[ARGV[i]] = KEYS[i]
end
local laggards = {}
for _, group in ipairs(groups_on(stream)) do
    if owed_to[group.name] then
        laggards[#laggards + 1] = group
        worst = math.max(worst, group.lag and group.pending + group.lag or 0)
    end
end
-- While a declared group is missing nothing is trimmed, so there is nothing to be won.
if #laggards < #ARGV - 2 then
    return {0, 0, 0}
end
for i = #laggards, 1, -1 do
    local group = laggards[i]
    if group.lag and (group.pending + group.lag) * 10 < worst then
        table.remove(laggards, i)
        local settled = settled_up_to(group)
        target = below(place(settled), place(target)) and settled or target
    end
end

local owed, more = 0, 0

local function owe(group, field, what, events)
    redis.call('HSET', owed_to[group.name], field, what)
    if events > 0 then
        redis.call('HINCRBY', ledger, 'owed:' .. group.name, string.format('%.0f', events))
    end
    owed = owed + events
end

-- Entries in work, one by one. One that was trimmed beneath the group is in the archive too.
local function take_pending(group)
    local pending = redis.call('XPENDING', stream, group.name, '-', target, ARGV[1])
    local found, ids = {}, {}
    for i, entry in ipairs(pending) do
        found[i], ids[i] = nearest(stream, 'XRANGE', entry[1], entry[1]), entry[1]
    end
    if #ids > 0 then
        redis.call('XACK', stream, group.name, unpack(ids))
    end
    for i, entry in ipairs(pending) do
        owe(group, table.concat({'id', name, found[i][2] or '', entry[1]}, '|'), (found[i][3] or '') .. '|' .. entry[4], 1)
    end
    if #ids == tonumber(ARGV[1]) then
        more = 1
    end
    return #ids
end

-- The last entry of the incarnation that the range begins with, {entry id, incarnation, number}: entries of one incarnation are
-- followed by those of the next. The milliseconds are found by bisecting, the entry within them by looking through.
local function last_of(incarnation, first, last)
    local low, high = tonumber(place(first).ms), tonumber(place(last).ms)
    while low < high do
        local middle = math.floor((low + high + 1) / 2)
        if nearest(stream, 'XRANGE', string.format('%.0f-0', middle), last)[2] == incarnation then
            low = middle
        else
            high = middle - 1
        end
    end
    local found, from = nil, string.format('%.0f-0', low)
    while true do
        local entry = nearest(stream, 'XRANGE', from, last)
        if entry[2] ~= incarnation then
            return found
        end
        found, from = entry, '(' .. entry[1]
    end
end

-- What the group was never handed, as a range of entry ids and of the numbers in it.
local function take_range(group)
    local after, to = group.delivered_to, target
    local first = nearest(stream, 'XRANGE', '(' .. after, to)
    if not_above(to, after) or #first == 0 then
        return
    end
    local last = first
    if #first == 1 then
        to = first[1]  -- foreign entries only, so far
    else
        last = nearest(stream, 'XREVRANGE', to, '(' .. after)
        while #last == 1 do
            last = nearest(stream, 'XREVRANGE', '(' .. last[1], '(' .. after)
        end
        if last[2] ~= first[2] then
            last = last_of(first[2], first[1], to)
            to = last[1]
        end
    end
    more = to ~= target and 1 or more
    local start, owed_already = {after, first[3] or ''}, tonumber(first[3] or '1') - 1
    local of = 'range|' .. name .. '|' .. (first[2] or '') .. '|'
    local before = redis.call('HGET', owed_to[group.name], of .. after)  -- it ends where this one begins
    if before then
        local numbers
        start[1], start[2], numbers = string.match(before, '^([^|]*)|([^|]*)|([^|]*)$')
        owed_already = tonumber(numbers) or owed_already
    end
    local read = entries_read(stream, to, ledger)
    local set = {'XGROUP', 'SETID', stream, group.name, to}
    if read then
        set[6], set[7] = 'ENTRIESREAD', read
    end
    redis.call('HDEL', owed_to[group.name], of .. after)
    redis.call(unpack(set))
    owe(group, of .. to, table.concat({start[1], start[2], last[3] or ''}, '|'), math.max(0, tonumber(last[3] or '0') - owed_already))
end

for _, group in ipairs(laggards) do
    if take_pending(group) < tonumber(ARGV[1]) then
        take_range(group)
    end
end
return {owed, more, worst}
