-- Where the streams of a shard that are archived end, in one look: newest entry ids, the last number of every incarnation that the
-- ledger knows, and how many events it has counted as accepted. All of one moment, so that they can be set off.
--
-- KEYS  1 ledger  2.. streams
-- ARGV  the streams' names, in the order of the keys
-- returns {incarnation, accepted, {entry id, {incarnation, number, ...}}, ...}
local accepted, numbers = 0, {}
local ledger = redis.call('HGETALL', KEYS[1])
local incarnation = redis.call('HGET', KEYS[1], 'incarnation') or ''
for i = 1, #ledger, 2 do
    local stream, of = string.match(ledger[i], '^sequence:(%w+):(%w+)$')
    if stream then
        numbers[stream] = numbers[stream] or {}
        table.insert(numbers[stream], of)
        table.insert(numbers[stream], ledger[i + 1])
    elseif string.sub(ledger[i], 1, 9) == 'accepted:' then
        accepted = accepted + tonumber(ledger[i + 1])
    end
end
-- A key of records that somebody replaced by another type must not keep events from being archived; one of events is an error.
local is_record = {dead = true, outcomes = true, quarantine = true}
local ends = {incarnation, accepted}
for i = 2, #KEYS do
    local entry_id = '0-0'
    local type_of = redis.call('TYPE', KEYS[i]).ok
    if type_of == 'stream' or (type_of ~= 'none' and not is_record[ARGV[i - 1]]) then
        local info = redis.call('XINFO', 'STREAM', KEYS[i])
        for j = 1, #info, 2 do
            if info[j] == 'last-generated-id' then
                entry_id = info[j + 1]
            end
        end
    end
    ends[#ends + 1] = {entry_id, numbers[ARGV[i - 1]] or {}}
end
return ends
