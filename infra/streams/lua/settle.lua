-- Settles deliveries of one stream: each is acked, retried or made a dead letter, if its consumer still owns it.
-- XACK knows no owner, so the pending list is asked for consumer and delivery count first: after a restart under the
-- same name, the name alone would fence nobody. Removes before it adds, so that it works when memory is full.
--
-- KEYS  1 stream  2 retry stream of the group  3 delayed  4 delayed bodies  5 dead  6 ledger
-- ARGV  1 group  2 consumer  3.. per delivery: entry id, delivery count, action, detail
--       action a: nothing more; r: detail = '<delay ms>:<retry_count>'; d: detail = JSON list of fields and values
-- returns per delivery 1 (settled) or 0 (somebody else owns it now)
local group, consumer = ARGV[1], ARGV[2]
local is_retry_stream = KEYS[1] == KEYS[2]
local log_fields = {incarnation = true, sequence = true, recheck = true, conflict = true, retry_count = true}

local function owned(id, count)
    local pending = redis.pcall('XPENDING', KEYS[1], group, id, id, 1)
    return not pending.err and pending[1] and pending[1][2] == consumer and pending[1][4] == tonumber(count)
end

-- The entry's fields without those that the log wrote for its old place.
local function event_fields(id)
    local fields, entry = {}, redis.call('XRANGE', KEYS[1], id, id)[1]
    for i = 1, entry and #entry[2] or 0, 2 do
        if not log_fields[entry[2][i]] then
            fields[#fields + 1] = entry[2][i]
            fields[#fields + 1] = entry[2][i + 1]
        end
    end
    return fields
end

local function remove(id)
    redis.call('XACK', KEYS[1], group, id)
    if is_retry_stream then
        redis.call('XDEL', KEYS[1], id)
    end
end

local function retry(id, detail)
    local delay_ms, retry_count = string.match(detail, '(%d+):(%d+)')
    local fields = event_fields(id)
    fields[#fields + 1] = 'retry_count'
    fields[#fields + 1] = retry_count
    remove(id)
    if delay_ms == '0' then
        redis.call('XADD', KEYS[2], '*', unpack(fields))
        return
    end
    local now = redis.call('TIME')
    local due_ms = now[1] * 1000 + math.floor(now[2] / 1000) + tonumber(delay_ms)
    -- The stream's own key makes the member unique: an entry waits at most once per stream it came from.
    local member = group .. '|' .. KEYS[1] .. '|' .. id
    redis.call('ZADD', KEYS[3], string.format('%.0f', due_ms), member)
    redis.call('HSET', KEYS[4], member, cmsgpack.pack(fields))
end

local function give_up(id, detail)
    local fields = event_fields(id)
    for _, part in ipairs(cjson.decode(detail)) do
        fields[#fields + 1] = part
    end
    remove(id)
    local incarnation = redis.call('HGET', KEYS[6], 'incarnation') or ''
    local number = redis.call('HINCRBY', KEYS[6], 'sequence:dead:' .. incarnation, 1)
    redis.call('XADD', KEYS[5], '*', 'record', 'letter', 'group', group, 'from', KEYS[1], 'from_entry', id, 'incarnation', incarnation, 'sequence', number, unpack(fields))
    redis.call('HINCRBY', KEYS[6], 'dead:' .. group, 1)
end

local results = {}
for i = 3, #ARGV, 4 do
    local id, count, action, detail = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    local settled = owned(id, count)
    if settled then
        if action == 'a' then
            remove(id)
        elseif action == 'r' then
            retry(id, detail)
        else
            give_up(id, detail)
        end
    end
    results[#results + 1] = settled and 1 or 0
end
return results
