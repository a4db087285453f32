-- Putting archived events onto a group's own stream; after `id_above`.

-- How many more entries may stand there: settling deletes them, so that what stands there is what is not settled. None while the log
-- is above its hard cap, or the stream above its share of the memory: what is in the archive can wait.
local function room_on(stream, ledger, most, most_bytes, now_ms)
    local full_until = redis.call('HGET', ledger, 'full')
    if full_until and tonumber(full_until) > now_ms then
        return 0
    end
    if redis.call('EXISTS', stream) == 1 and redis.call('MEMORY', 'USAGE', stream, 'SAMPLES', 100) >= most_bytes then
        return 0
    end
    return most - redis.call('XLEN', stream)
end

local function newest_id(stream)
    local info = redis.pcall('XINFO', 'STREAM', stream)  -- an error while there is no stream
    for i = 1, info.err and 0 or #info, 2 do
        if info[i] == 'last-generated-id' then
            return info[i + 1]
        end
    end
    return '0-0'
end

local function ms_of(id)
    return tonumber(string.match(id, '^(%d+)') or '0')
end

-- By their milliseconds.
local function later_of(one, other)
    return ms_of(one) > ms_of(other) and one or other
end

-- Adds one entry, of fields and values; returns the error, if there is one. They are arguments and no table: this is done for every
-- event of a history.
local function continue_entry(stream, origin, now_ms, ...)
    local added = redis.pcall('XADD', stream, id_above(stream, origin, now_ms), ...)
    return type(added) == 'table' and added.err and added or nil
end
