-- The incarnation that numbers belong to now; `fresh` begins when the server has another replication id than the ledger says.
-- Removes before it adds: a log that was restarted with its memory full must let the archive begin, or it stays full.
local function present_incarnation(ledger, fresh)
    local replication_id = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
    local known = redis.call('HMGET', ledger, 'replication_id', 'incarnation')
    if known[1] == replication_id and known[2] then
        return known[2]
    end
    redis.call('HDEL', ledger, 'replication_id', 'incarnation')
    redis.call('HSET', ledger, 'replication_id', replication_id, 'incarnation', fresh)
    return fresh
end
