-- Appends the parts of one body to one stream, each once, all of them or none: looks for every part in `seen`, adds the entries
-- of those that are new, remembers them, counts.
-- Whatever can fail comes before the first write but the XADDs themselves: the first of them fails when memory is full, and
-- when a later one does (the stream has no more ids) the entries before it are taken away again.
--
-- KEYS  1 the event stream  2 ledger  3.. seen buckets of the first part, the one to write first; those of the others differ in their
--       last number, so they have the same hash tag
-- ARGV  1 incarnation  2 which of the streams (1-4)  3 <tenant>:<source>  4 seconds to remember  5 recheck (0 or 1)
--       6.. the parts, each: bucket, marker (12 bytes), body digest (8 bytes), event id (16 bytes), how many texts follow, fields
--       and values
-- returns for each part what `append` returns for an event: 'appended' or 'duplicate'; or 'incarnation' or 'full' for all of them
-- include id_above

local incarnation, index = ARGV[1], tonumber(ARGV[2])
local owner = ARGV[3]

-- include admit
-- include seen

local stems = {}
for i = 3, #KEYS do
    stems[#stems + 1] = string.match(KEYS[i], '^(.*:)%d+$')
end

local function buckets_of(number)
    local buckets = {}
    for i, stem in ipairs(stems) do
        buckets[i] = stem .. number
    end
    return buckets
end

-- What the parts before this one will have remembered, by field.
local here = {}

-- A part is a duplicate or a conflict of one before it in the same body as it would be had that one come alone.
local function look_here(part)
    local before = here[part.field]
    if before and before.digest ~= part.digest then
        part.field, part.conflict = part.marker .. part.digest, 1
        before = here[part.field]
    end
    return before
end

local parts, fresh, at = {}, {}, 6
while at <= #ARGV do
    local part = {marker = ARGV[at + 1], digest = ARGV[at + 2], event_id = ARGV[at + 3], from = at + 5, to = at + 4 + tonumber(ARGV[at + 4])}
    part.buckets = buckets_of(ARGV[at])
    part.first, part.field, part.conflict, part.place, part.depth, part.is_new = look(part.buckets, 1, part.marker, part.digest)
    if not part.first then
        part.twin = look_here(part)
        if not part.twin then
            here[part.field] = part
            fresh[#fresh + 1] = part
        end
    end
    parts[#parts + 1] = part
    at = part.to + 1
end

local function entry_of(part)
    local entry = {'XADD', KEYS[1], '*'}
    for i = part.from, part.to do
        entry[#entry + 1] = ARGV[i]
    end
    for _, text in ipairs({'incarnation', incarnation, 'sequence', string.format('%.0f', part.number), 'recheck', ARGV[5], 'conflict', tostring(part.conflict)}) do
        entry[#entry + 1] = text
    end
    return entry
end

for i, part in ipairs(fresh) do
    part.number = number + i
    local added = redis.pcall(unpack(entry_of(part)))
    if type(added) == 'table' and added.err then
        for j = 1, i - 1 do
            redis.call('XDEL', KEYS[1], fresh[j].entry_id)
        end
        return added
    end
    part.entry_id = added
end

local conflicts = 0
for _, part in ipairs(fresh) do
    part.record = part.event_id .. part.digest .. index .. incarnation .. part.entry_id
    remember(part.buckets, 1, part.place, part.depth, part.is_new, part.field, part.record, ARGV[4])
    conflicts = conflicts + part.conflict
end
if #fresh > 0 then
    note_given(#fresh)
end
count('conflicts', conflicts)
count('duplicates', #parts - #fresh)

local replies = {}
for i, part in ipairs(parts) do
    local first = part.first or (part.twin and part.twin.record)
    replies[i] = first and duplicate_of(first) or {'appended', part.event_id, names[index], incarnation, part.entry_id, part.number, part.conflict}
end
return replies
