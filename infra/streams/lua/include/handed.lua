-- How much a group was handed since it was noted as {of, number, id, pending, outcomes}, and is gone (KEYS 1 stream, 3 ledger): deliveries,
-- which are counted by whoever has them in work, and are no loss once they are acked. Where that cannot be told it says too little, so
-- that too much is counted as lost and never too little. Needs `standing`, `stands`, `gaps` and `lost`.

-- What was settled for good by one record; a retry may be one that was only held back, and is in work.
local function settled_by(record)
    local is_json, batch = pcall(cjson.decode, value(record, 'batch') or '')
    local listed, settled = ',' .. (value(record, 'lost') or '') .. ',', 0
    for i, step in ipairs(is_json and batch.steps or {}) do
        local is_lost = string.find(listed, ',' .. i .. ',', 1, true)
        settled = settled + (step ~= 'retry' and batch.event_ids[i] ~= '' and not is_lost and 1 or 0)
    end
    return settled
end

local function settled_since(group, after)
    local settled, from = 0, '(' .. after
    repeat
        local records = redis.pcall('XRANGE', outcomes_beside(KEYS[3]), from, '+', 'COUNT', 100)
        records = records.err and {} or records
        for _, record in ipairs(records) do
            from = '(' .. record[1]
            if value(record[2], 'group') == group and value(record[2], 'stream') == KEYS[1] then
                settled = settled + settled_by(record[2])
            end
        end
    until #records < 100
    return settled
end

-- Entries that are there, from where the group stood to where it stands.
local function still_there(stood, stands, lives)
    local from, to, there = index_of(lives, stood.of), index_of(lives, stands.of), 0
    for i = from or 1, from and to or 0 do
        local passed = without(all_up_to(i == to and stands.number or lives[i].given), all_up_to(i == from and stood.number or 0))
        for _, range in ipairs(without(passed, lives[i].gone)) do
            there = there + range[2] - range[1] + 1
        end
    end
    return there
end

-- One by one: what is pending without an entry, and what was found so since.
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
        local id = string.match(what, '^events:%a+|(%d+%-%d+)$')
        local is_here = id and string.find(KEYS[1], string.match(what, '^[^|]+') .. '$')
        found = found + (is_here and below(place(after), place(id)) and 1 or 0)
    end
    return found
end

local function handed_and_gone(group, stood, stands, lives)
    local handed = 0
    if stood.pending then
        -- With its stream a group loses what it has in work too.
        local now = stands and stands.pending - still_there(stood, stands, lives) or 0
        handed = now - stood.pending + settled_since(group, stood.outcomes)
    end
    return math.max(handed, gone_in_work(group, stood.id))
end
