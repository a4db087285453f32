-- Takes one delivery over: a certain one that this consumer's name still holds (or, when it holds the shard, anybody's), or any
-- that its consumer left idle for longer than a lease. One at a time, so that an entry that kills its process is found and its neighbours are not charged.
-- Entries that were trimmed beneath the group are counted as lost on the way.
--
-- KEYS  1 stream  2 ledger
-- ARGV  1 group  2 consumer  3 least idle ms  4 entry id (of this consumer), or empty for any
--       5 'counted': this is one more delivery; 'uncounted': the reply to the first one never arrived, so it is still that one;
--         'adopted': counted, and whoever had it has lost the shard
-- returns {} | {entry id, delivery count, fields and values}
-- include lost

local group, consumer = ARGV[1], ARGV[2]

local function find()
    if ARGV[4] == '' then
        return redis.call('XPENDING', KEYS[1], group, 'IDLE', ARGV[3], '-', '+', 1)[1]
    end
    local found = redis.call('XPENDING', KEYS[1], group, ARGV[4], ARGV[4], 1)[1]
    return found and (found[2] == consumer or ARGV[5] == 'adopted') and found
end

for _ = 1, 1000 do
    local found = find()
    if not found then
        return {}
    end
    local id = found[1]
    local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
    if entry then
        local claim = {'XCLAIM', KEYS[1], group, consumer, 0, id}
        if ARGV[5] == 'uncounted' then
            claim[#claim + 1] = 'JUSTID'
        end
        redis.call(unpack(claim))
        return {id, redis.call('XPENDING', KEYS[1], group, id, id, 1)[1][4], entry[2]}
    end
    redis.call('XACK', KEYS[1], group, id)
    count_lost(KEYS[2], group, KEYS[1], id)
end
return {}
