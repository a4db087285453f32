-- How much memory the server of this shard uses, as it counts itself when it decides that its memory is full, and about how
-- much of it event streams take. Also what is noted about the hard cap. Reads only, so it works when memory is full.
--
-- KEYS  1 ledger  2.. streams to weigh
-- returns {server time in ms, used bytes, maxmemory or 0, the machine's memory or 0, until when (ms) appends are refused or 0,
--          bytes of each stream}
-- include id_above

local info = redis.call('INFO', 'memory')

local function fact(name)
    return tonumber(string.match(info, '[\r\n]' .. name .. ':(%d+)') or '0')
end

local weights = {
    server_ms(), fact('used_memory') - fact('mem_not_counted_for_evict'), fact('maxmemory'), fact('total_system_memory'),
    tonumber(redis.call('HGET', KEYS[1], 'full') or '0'),
}
for i = 2, #KEYS do
    -- The server looks at so many nodes of the stream and no more.
    weights[#weights + 1] = redis.call('MEMORY', 'USAGE', KEYS[i], 'SAMPLES', 100) or 0
end
return weights
