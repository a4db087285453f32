-- Declares a group on streams of one shard: in the registry, and on each stream where it does not exist.
-- A group that vanished (flush, failover, eviction) comes back where the registry says that it had settled everything, if that
-- was noted in the present incarnation and is a place of this stream; else at the start of what there is. Never at `$` and never
-- at the archived mark, which would skip events without a trace. Nothing is written when nothing is new; else it removes
-- before it adds, since a log whose memory is full is emptied by groups that begin with this.
--
-- KEYS  1 registry  2 ledger  3.. streams
-- ARGV  1 group  2 kind (`durable`, or `ephemeral:<time to live, ms>`)
-- returns how many streams the group was created on
-- include id_above
-- include standing
-- include nearest
-- include stands
-- include entries_read

local function has_group(stream)
    local groups = redis.pcall('XINFO', 'GROUPS', stream)  -- an error while there is no stream
    for _, info in ipairs(groups.err and {} or groups) do
        if info[2] == ARGV[1] then  -- {'name', name, ...}
            return true
        end
    end
    return false
end

-- The entry id up to which the group had settled everything, or nil.
local function registered(stream)
    local name = string.match(stream, ':events:(%a+)$')  -- of its retry stream the group deletes what it has settled
    local position = name and redis.call('HGET', KEYS[1], 'at:' .. ARGV[1] .. ':' .. name)
    local incarnation, bracket, id = string.match(position or '', '^(%w+)|(%(?)(%d+%-%d+)$')
    if not id or incarnation ~= redis.call('HGET', KEYS[2], 'incarnation') or redis.call('EXISTS', stream) == 0 then
        return nil
    end
    -- Above the newest id: the stream was made anew since, and the clock set back. A group there would read nothing.
    if below(place(value(redis.call('XINFO', 'STREAM', stream), 'last-generated-id')), place(id)) then
        return nil
    end
    if bracket == '' then
        return id
    end
    local before = redis.call('XREVRANGE', stream, '(' .. id, '-', 'COUNT', 1)[1]
    return before and before[1]
end

-- What somebody removes before the group was seen on its streams for the first time is its loss too.
local function note_made(stream, id)
    local name, incarnation = string.match(stream, ':events:(%a+)$'), redis.call('HGET', KEYS[2], 'incarnation')
    local stands = name and incarnation and ARGV[1] ~= 'archive' and standing_of(stream, KEYS[2], incarnation, id, 0)
    if stands then
        redis.call('HSET', KEYS[1], 'made:' .. ARGV[1] .. ':' .. name, cjson.encode(stands))
    end
end

local missing, field = {}, 'group:' .. ARGV[1]
for i = 3, #KEYS do
    if not has_group(KEYS[i]) then
        missing[#missing + 1] = {'XGROUP', 'CREATE', KEYS[i], ARGV[1], registered(KEYS[i]) or '0', 'MKSTREAM'}
    end
end
if #missing == 0 and redis.call('HGET', KEYS[1], field) == ARGV[2] then
    return 0
end
redis.call('HDEL', KEYS[1], field)
redis.call('HSET', KEYS[1], field, ARGV[2], 'alive:' .. ARGV[1], string.format('%.0f', server_ms()))
for _, create in ipairs(missing) do
    local read = create[5] ~= '0' and entries_read(create[3], create[5], KEYS[2])
    if read then
        create[#create + 1] = 'ENTRIESREAD'
        create[#create + 1] = read
    end
    redis.call(unpack(create))
    note_made(create[3], create[5] == '0' and '0-0' or create[5])
end
return #missing
