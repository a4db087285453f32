-- Takes parked entries back whose version the caller can read, into the retry stream of their group. Looks at a bounded number,
-- from a place on: those that nobody here can read stay, and must not hide what is behind them. Removes before it adds.
--
-- KEYS  1 parked stream of the group  2 its retry stream
-- ARGV  1 look behind this entry id, or empty for the start  2 at how many at most  3.. versions that can be read
-- returns {how many were taken back, the id to look behind next time, or empty after the end}
-- include id_above

local readable = {}
for i = 3, #ARGV do
    readable[ARGV[i]] = true
end

local function version_of(fields)
    for i = 1, #fields, 2 do
        if fields[i] == 'version' then
            return fields[i + 1]
        end
    end
end

local found = redis.call('XRANGE', KEYS[1], ARGV[1] == '' and '-' or '(' .. ARGV[1], '+', 'COUNT', ARGV[2])
local now_ms, moved = server_ms(), 0
for _, entry in ipairs(found) do
    local id, fields = entry[1], entry[2]
    if readable[version_of(fields)] then
        redis.call('XDEL', KEYS[1], id)
        redis.call('XADD', KEYS[2], id_above(KEYS[2], id, now_ms), unpack(fields))
        moved = moved + 1
    end
end
if redis.call('XLEN', KEYS[1]) == 0 then
    redis.call('DEL', KEYS[1])
end
return {moved, #found == tonumber(ARGV[2]) and found[#found][1] or ''}
