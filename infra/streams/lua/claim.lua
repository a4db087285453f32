-- Takes one delivery over: this consumer's own from an earlier life (idle 0), or one that its consumer left idle for
-- longer than a lease. One at a time, so that an entry that kills its process is found and its neighbours are not charged.
--
-- KEYS  1 stream  2 ledger
-- ARGV  1 group  2 consumer  3 least idle ms  4 whose (a consumer's name, or empty for anybody's)
-- returns {} | {entry id, delivery count, fields and values} | {entry id, 'gone'} when it was trimmed beneath the group
local search = {'XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[3], '-', '+', 1}
if ARGV[4] ~= '' then
    search[#search + 1] = ARGV[4]
end
local found = redis.call(unpack(search))[1]
if not found then
    return {}
end
local id = found[1]
local claimed = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id)[1]
if not claimed then
    redis.call('XACK', KEYS[1], ARGV[1], id)
    redis.call('HINCRBY', KEYS[2], 'lost:' .. ARGV[1], 1)
    return {id, 'gone'}
end
return {id, redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1][4], claimed[2]}
