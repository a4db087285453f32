-- Moves the archive's group on one stream to a position whose rows are synced in Delta, and writes the mark down.
-- Never backwards, so that a repeated move is harmless; removes before it adds, since a full log is emptied through here.
-- A position of a past incarnation only moves that incarnation's mark: its entry ids may have been given again, so the
-- group does not follow it. Numbers that are counted as lost move a mark's number, and not its entry id.
--
-- KEYS  1 ledger  2 stream
-- ARGV  1 group  2 stream name  3 incarnation  4 entry id  5 number
-- returns 1 when the group stands at or beyond the position, 0 when the position is of a past incarnation
-- include entries_read

local function above(a, b)
    local a_ms, a_n = string.match(a, '(%d+)-(%d+)')
    local b_ms, b_n = string.match(b, '(%d+)-(%d+)')
    a_ms, a_n, b_ms, b_n = tonumber(a_ms), tonumber(a_n), tonumber(b_ms), tonumber(b_n)
    return a_ms > b_ms or (a_ms == b_ms and a_n > b_n)
end

local function value(list, name)
    for j = 1, #list, 2 do
        if list[j] == name then
            return list[j + 1]
        end
    end
end

local mark_field = 'archived:' .. ARGV[2] .. ':' .. ARGV[3]
local mark = redis.call('HGET', KEYS[1], mark_field)
local mark_number = mark and tonumber(string.match(mark, '|(%d+)$'))
if not mark or above(ARGV[4], mark) or (not above(mark, ARGV[4]) and tonumber(ARGV[5]) > mark_number) then
    redis.call('HDEL', KEYS[1], mark_field)
    redis.call('HSET', KEYS[1], mark_field, ARGV[4] .. '|' .. ARGV[5])
end
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[3] then
    return 0
end
if redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('XGROUP', 'CREATE', KEYS[2], ARGV[1], '0', 'MKSTREAM')
end
local info = redis.call('XINFO', 'STREAM', KEYS[2])
local newest, stands_at = value(info, 'last-generated-id'), nil
for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[2])) do
    if value(group, 'name') == ARGV[1] then
        stands_at = value(group, 'last-delivered-id')
    end
end
-- A group above the newest entry was set in a life of the server that is gone; it would read nothing for ever.
if stands_at and not above(ARGV[4], stands_at) and not above(stands_at, newest) then
    return 1
end
local command = {'XGROUP', stands_at and 'SETID' or 'CREATE', KEYS[2], ARGV[1], ARGV[4]}
local read = entries_read(KEYS[2], ARGV[4], KEYS[1])
if read then
    command[#command + 1] = 'ENTRIESREAD'
    command[#command + 1] = read
end
redis.call(unpack(command))
return 1
