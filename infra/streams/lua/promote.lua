-- Moves what is due out of the delayed set, by the server's own clock: retries into the retry streams of their groups,
-- scheduled events into their event streams, where they get a number like any other.
-- Removes before it adds, so that it works when memory is full. What has lost its body cannot be made again: it is counted
-- as lost, and does not hold up the others.
--
-- KEYS  1 delayed  2 delayed bodies  3 ledger
-- ARGV  1 the start of the shard's retry keys, `...{n}:retry:`  2 that of its event streams (same hash tag as KEYS)
--       3 how many at most  4 the incarnation to begin if one is needed
-- returns how many were moved
-- include id_above
-- include incarnation
-- include lost

local now_ms = server_ms()

local function retry(member, fields)
    local group, from, origin = string.match(member, '^([^|]+)|(.*)|([^|]+)$')
    if not fields then
        count_lost(KEYS[3], group, from, origin)
        return 0
    end
    local stream = ARGV[1] .. group
    redis.call('XADD', stream, id_above(stream, origin, now_ms), unpack(fields))
    return 1
end

-- What `seen` remembers of the event gets the place where it stands now, if it is remembered still.
local function remember(bucket, field, event_id, place)
    local record = redis.call('HGET', bucket, field)
    if record and #record == 33 and string.sub(record, 1, 16) == event_id then
        redis.call('HSET', bucket, field, string.sub(record, 1, 25) .. place)
    end
end

local function scheduled(member, body)
    local name, owner, event_id = string.match(member, '^|([^|]+)|([^|]+)|(%x+)$')
    redis.call('HINCRBY', KEYS[3], 'scheduled:' .. owner, -1)
    if not body then
        redis.call('HINCRBY', KEYS[3], 'lost_scheduled', 1)
        return 0
    end
    local fields, recheck, conflict, bucket, field = unpack(body)
    local incarnation = present_incarnation(KEYS[3], ARGV[4])
    local sequence_field = 'sequence:' .. name .. ':' .. incarnation
    local number = string.format('%.0f', (tonumber(redis.call('HGET', KEYS[3], sequence_field)) or 0) + 1)
    for _, part in ipairs({'incarnation', incarnation, 'sequence', number, 'recheck', recheck, 'conflict', conflict}) do
        fields[#fields + 1] = part
    end
    local entry_id = redis.call('XADD', ARGV[2] .. name, '*', unpack(fields))
    redis.call('HSET', KEYS[3], sequence_field, number)
    event_id = string.gsub(event_id, '..', function(byte) return string.char(tonumber(byte, 16)) end)
    remember(bucket, field, event_id, incarnation .. entry_id)
    return 1
end

local moved = 0
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now_ms), 'LIMIT', 0, ARGV[3])) do
    -- Unpacked before anything is removed: what was packed never has more fields than can be passed on.
    local is_body, body = pcall(cmsgpack.unpack, redis.call('HGET', KEYS[2], member))
    local is_scheduled = string.sub(member, 1, 1) == '|'
    -- While a cluster moves the slot, what is written to may be on another node already: that is an error now, and would be a
    -- lost event once it is removed here.
    redis.call('EXISTS', is_scheduled and ARGV[2] .. string.match(member, '^|([^|]+)|') or ARGV[1] .. string.match(member, '^([^|]+)|'))
    if is_scheduled and is_body and type(body) == 'table' then
        redis.call('EXISTS', body[4])
    end
    redis.call('ZREM', KEYS[1], member)
    redis.call('HDEL', KEYS[2], member)
    local move = is_scheduled and scheduled or retry
    moved = moved + move(member, is_body and type(body) == 'table' and body)
end
return moved
