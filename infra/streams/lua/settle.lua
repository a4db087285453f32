-- Settles deliveries of one stream: each is acked, retried, parked or made a dead letter, if its consumer still owns it.
-- XACK knows no owner, so the pending list is asked for consumer and delivery count first: after a restart under the
-- same name, the name alone would fence nobody. Removes before it adds, so that it works when memory is full; whatever
-- could fail is therefore read and parsed before the first removal.
--
-- KEYS  1 stream  2 retry stream of the group  3 delayed  4 delayed bodies  5 dead  6 ledger
--       7 parked stream of the group  8 outcomes  9.. what the writes of `delivery.once` are about, each named by its place here
-- ARGV  1 group  2 consumer  3 what to record about the deliveries, packed, or empty  4 how many are plain: acked, at their first delivery
--       5.. the entry ids of those, then per other delivery: entry id, delivery count, action, detail
--       action a: nothing more; r: detail = '<delay ms>:<retry_count>:<JSON list of fields and values to add>';
--       h: stays pending, detail = its delivery count from now on; d: detail = JSON list of the letter's fields and values;
--       p: put aside whole, detail = its retry_count;
--       o: an ack with writes, detail = the JSON object of include/once.lua, and in it `letter`, as in d, but for reason and error
-- returns the places (the first is 1) of the deliveries that were not settled: somebody else owns it now, or there is no entry left
--         to retry or park; an error, with nothing done, when a detail cannot be parsed
-- include id_above
-- include lost
-- include once

local group, consumer = ARGV[1], ARGV[2]
-- A stream that no other group reads: what is settled there is deleted.
local is_own_stream = not string.match(KEYS[1], '}:events:%a+$')
local log_fields = {incarnation = true, sequence = true, recheck = true, conflict = true, retry_count = true}
-- Lua cannot pass on more than about 8,000 arguments. Of an entry with more fields than this the first ones, an
-- event's own among them, stay as they are; the rest is kept packed in one field.
local most_fields = 1000

local function texts(json)
    local is_json, parts = pcall(cjson.decode, json)
    for _, part in ipairs(is_json and type(parts) == 'table' and parts or {false}) do
        if type(part) ~= 'string' then
            return nil
        end
    end
    return parts
end

local function parsed(action, detail)
    if action == 'a' then
        return {}
    elseif action == 'r' then
        local delay_ms, retry_count, added = string.match(detail, '^(%d+):(%d+):(.*)$')
        local parts = added and texts(added)
        return parts and {delay_ms = delay_ms, retry_count = retry_count, parts = parts}
    elseif action == 'o' then
        local is_json, decided = pcall(cjson.decode, detail)
        return is_json and is_once(decided) and decided
    elseif action == 'h' then
        return string.match(detail, '^%d+$') and {delivery_count = detail}
    elseif action == 'p' then
        return string.match(detail, '^%d+$') and {retry_count = detail}
    elseif action == 'd' then
        return texts(detail)
    end
end

-- The entry's fields without those that the log wrote for its old place; nil when it was trimmed beneath us.
local function event_fields(id)
    local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
    if not entry then
        return nil
    end
    local fields, rest = {}, {}
    local into = fields
    for i = 1, #entry[2], 2 do
        if not log_fields[entry[2][i]] then
            into[#into + 1] = entry[2][i]
            into[#into + 1] = entry[2][i + 1]
            if #entry[2] > 2 * most_fields and #fields >= 2 * (most_fields - 10) then
                into = rest
            end
        end
    end
    if #rest > 0 then
        fields[#fields + 1] = 'raw_fields'
        fields[#fields + 1] = cmsgpack.pack(rest)
    end
    return fields
end

local acked = {}

-- Lua cannot pass on more than about 8,000 arguments.
local function ack_all()
    for from = 1, #acked, 5000 do
        local to = math.min(from + 4999, #acked)
        redis.call('XACK', KEYS[1], group, unpack(acked, from, to))
        if is_own_stream then
            redis.call('XDEL', KEYS[1], unpack(acked, from, to))
        end
    end
end

local function remove(id)
    redis.call('XACK', KEYS[1], group, id)
    if is_own_stream then
        redis.call('XDEL', KEYS[1], id)
    end
end

-- Takes the entry away from where it was; its fields go elsewhere. None when it was trimmed beneath us.
local function taken(id, decided)
    local fields = event_fields(id)
    remove(id)
    if not fields then
        count_lost(KEYS[6], group, KEYS[1], id)
        return nil
    end
    for _, part in ipairs(decided.parts or {}) do
        fields[#fields + 1] = part
    end
    fields[#fields + 1] = 'retry_count'
    fields[#fields + 1] = decided.retry_count
    return fields
end

local function park(id, decided)
    local fields = taken(id, decided)
    if fields then
        redis.call('XADD', KEYS[7], id_above(KEYS[7], id, server_ms()), unpack(fields))
    end
    return fields ~= nil
end

local function retry(id, decided)
    local fields = taken(id, decided)
    if not fields then
        return false
    end
    if decided.delay_ms == '0' then
        redis.call('XADD', KEYS[2], id_above(KEYS[2], id, server_ms()), unpack(fields))
        return true
    end
    local due_ms = server_ms() + tonumber(decided.delay_ms)
    -- The stream's own key makes the member unique: an entry waits at most once per stream it came from.
    local member = group .. '|' .. KEYS[1] .. '|' .. id
    redis.call('ZADD', KEYS[3], string.format('%.0f', due_ms), member)
    redis.call('HSET', KEYS[4], member, cmsgpack.pack(fields))
    return true
end

-- A letter of an entry that is gone still says where the entry stood and why it was given up: that is how a person finds
-- the event in the archive. It holds no event, so it is counted as lost besides.
local function give_up(id, parts)
    local fields = event_fields(id)
    remove(id)
    local incarnation = redis.call('HGET', KEYS[6], 'incarnation') or ''
    local number = redis.call('HINCRBY', KEYS[6], 'sequence:dead:' .. incarnation, 1)
    local letter = {'record', 'letter', 'group', group, 'from', KEYS[1], 'from_entry', id, 'incarnation', incarnation, 'sequence', number}
    for _, part in ipairs(parts) do
        letter[#letter + 1] = part
    end
    local own = {}
    for i = 1, #letter, 2 do
        own[letter[i]] = letter[i + 1]
    end
    for i = 1, fields and #fields or 0, 2 do
        local name, value = fields[i], fields[i + 1]
        -- The first failure came with the entry, and stands among the letter's own fields now.
        if not (string.sub(name, 1, 6) == 'first_' and own[name] == value) then
            -- A malformed entry may have fields called like the letter's own; `requeue` takes the prefix off again.
            local is_taken = own[name] or string.sub(name, 1, 5) == 'kept:'
            letter[#letter + 1] = is_taken and 'kept:' .. name or name
            letter[#letter + 1] = value
        end
    end
    redis.call('XADD', KEYS[5], '*', unpack(letter))
    redis.call('HINCRBY', KEYS[6], 'dead:' .. group, 1)
    if not fields then
        count_lost(KEYS[6], group, KEYS[1], id)
    end
    return true
end

-- All of its writes, or a dead letter that says why there are none; false then.
local function ack_once(id, decided)
    local refusal = once_refusal(decided)
    if refusal then
        local letter = {'reason', 'what it wrote through delivery.once cannot be stored: ' .. refusal, 'error', refusal}
        for _, part in ipairs(decided.letter) do
            letter[#letter + 1] = part
        end
        give_up(id, letter)
        return false
    end
    remove(id)
    write_once(decided)
    return true
end

local plain = tonumber(ARGV[4])
local others_from = 5 + plain
local decisions = {}
for i = others_from, #ARGV, 4 do
    local decided = parsed(ARGV[i + 2], ARGV[i + 3])
    if not decided then
        return redis.error_reply('ERR settle: ' .. ARGV[i] .. ' has an action or a detail that makes no sense; nothing was settled')
    end
    decisions[#decisions + 1] = decided
end

-- Right for ids of one length, which nearly all are; where it is wrong, the look below misses some, and they are looked up one by one.
local function before(a, b)
    return #a < #b or (#a == #b and a < b)
end

local first, last = ARGV[5], ARGV[5]
local function reach_to(id)
    if before(id, first) then
        first = id
    elseif before(last, id) then
        last = id
    end
end
for i = 5, others_from - 1 do
    local id = ARGV[i]
    if #id ~= #last or id < last then  -- most come in their order
        reach_to(id)
    else
        last = id
    end
end
for i = others_from, #ARGV, 4 do
    reach_to(ARGV[i])
end

-- What the consumer holds between the first and the last id, in one look: a look for each would be most of the cost. It may hold
-- others in between, so that there may be no room for all.
local counts = {}
local held = redis.pcall('XPENDING', KEYS[1], group, first, last, 2 * (plain + #decisions) + 100, consumer)
for _, entry in ipairs(held.err and {} or held) do
    counts[entry[1]] = entry[4]
end

local function count_of(id)
    if not counts[id] and not held.err then
        local pending = redis.call('XPENDING', KEYS[1], group, id, id, 1, consumer)
        counts[id] = pending[1] and pending[1][4]
    end
    return counts[id]
end

local function owned(id, count)
    return count_of(id) == tonumber(count)
end

local lost = {}
for place = 1, plain do
    local id = ARGV[4 + place]
    if counts[id] == 1 or owned(id, 1) then
        acked[#acked + 1] = id
    else
        lost[#lost + 1] = place
    end
    -- The same delivery twice in one call is settled once.
    counts[id] = -1
end
local owns = {}
for number, decided in ipairs(decisions) do
    local i = others_from + 4 * (number - 1)
    local id, action = ARGV[i], ARGV[i + 2]
    owns[number] = owned(id, ARGV[i + 1])
    -- Held back already: the reply to an earlier call never arrived.
    if action == 'h' and not owns[number] and owned(id, decided.delivery_count) then
        owns[number] = true
    end
    counts[id] = -1
    if owns[number] and action == 'a' then
        acked[#acked + 1] = id
    end
end
ack_all()
local refused = {}
for number, decided in ipairs(decisions) do
    local i = others_from + 4 * (number - 1)
    local id, action = ARGV[i], ARGV[i + 2]
    local is_settled = owns[number]
    if is_settled and action == 'h' then
        redis.call('XCLAIM', KEYS[1], group, consumer, 0, id, 'RETRYCOUNT', decided.delivery_count, 'JUSTID')
    elseif is_settled and action == 'r' then
        is_settled = retry(id, decided)
    elseif is_settled and action == 'p' then
        is_settled = park(id, decided)
    elseif is_settled and action == 'o' then
        if not ack_once(id, decided) then
            refused[#refused + 1] = plain + number
        end
    elseif is_settled and action == 'd' then
        give_up(id, decided)
    end
    if not is_settled then
        lost[#lost + 1] = plain + number
    end
end

-- Whoever lost its leases records nothing about them: the packed record says what was decided, `lost` what of that came to nothing,
-- and `refused` which acks became dead letters, since their writes could not be made.
if ARGV[3] ~= '' and #lost < plain + #decisions then
    local incarnation = redis.call('HGET', KEYS[6], 'incarnation') or ''
    local number = redis.call('HINCRBY', KEYS[6], 'sequence:outcomes:' .. incarnation, 1)
    local record = {
        'record', 'outcomes', 'group', group, 'consumer', consumer, 'stream', KEYS[1], 'batch', ARGV[3],
        'lost', table.concat(lost, ','), 'incarnation', incarnation, 'sequence', number
    }
    if #refused > 0 then
        record[#record + 1] = 'refused'
        record[#record + 1] = table.concat(refused, ',')
    end
    redis.call('XADD', KEYS[8], '*', unpack(record))
end
return lost
