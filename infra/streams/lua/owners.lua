-- Whose the entries of a stream are, without their bodies.
--
-- KEYS  1 stream
-- ARGV  1 where to begin, as XRANGE takes it  2 how many entries at most
-- returns {{entry id, event id, tenant, source, incarnation, number}, ...}; empty texts where an entry has none
local found = {}
for i, entry in ipairs(redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])) do
    local of = {}
    for j = 1, #entry[2], 2 do
        of[entry[2][j]] = entry[2][j + 1]
    end
    found[i] = {entry[1], of['id'] or '', of['tenant_id'] or '', of['source'] or '', of['incarnation'] or '', of['sequence'] or ''}
end
return found
