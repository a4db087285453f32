-- Where the event streams of a shard end, in one look: newest entry id and newest number of the present incarnation.
--
-- KEYS  1 ledger  2.. streams
-- ARGV  the streams' names, in the order of the keys
-- returns {incarnation, {entry id, number}, ...}
local incarnation = redis.call('HGET', KEYS[1], 'incarnation') or ''
local ends = {incarnation}
for i = 2, #KEYS do
    local entry_id = '0-0'
    if redis.call('EXISTS', KEYS[i]) == 1 then
        local info = redis.call('XINFO', 'STREAM', KEYS[i])
        for j = 1, #info, 2 do
            if info[j] == 'last-generated-id' then
                entry_id = info[j + 1]
            end
        end
    end
    local number = redis.call('HGET', KEYS[1], 'sequence:' .. ARGV[i - 1] .. ':' .. incarnation) or '0'
    ends[#ends + 1] = {entry_id, number}
end
return ends
