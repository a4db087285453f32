local function server_ms()
    local now = redis.call('TIME')
    return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- The id for an entry that continues the one called `origin`: its milliseconds are above those of the origin, since fence
-- tokens are made of them and must only grow. The server's clock gives such an id by itself, unless it was set back or
-- stands within the same millisecond. An origin beyond what Lua can count was never ours, and is not followed.
local function id_above(stream, origin, now_ms)
    local origin_ms = tonumber(string.match(origin, '^(%d+)%-') or '0')
    if now_ms > origin_ms or origin_ms >= 2 ^ 52 then
        return '*'
    end
    local info = redis.pcall('XINFO', 'STREAM', stream)  -- an error while there is no stream
    for i = 1, info.err and 0 or #info, 2 do
        if info[i] == 'last-generated-id' and tonumber(string.match(info[i + 1], '^(%d+)')) > origin_ms then
            return '*'
        end
    end
    return string.format('%.0f-*', origin_ms + 1)
end
