-- Whether the log takes events now, and what it knows about itself: the first lines of whatever appends. Returns from the script with
-- {'incarnation', the ledger's} when the caller was given another one, and with {'full'} above the hard cap.
-- Needs `incarnation` (the caller's), `index` (which of the streams) and `owner`; KEYS 1 that stream, 2 ledger, 3 the first `seen` bucket.
-- Gives `names`, `ledger`, `known` and `depths_field` to `seen`. Needs `server_ms` of `id_above`.
-- All that is read of the ledger is read here, and what every append writes there is written by one call: each costs a microsecond.

local names, ledger = {'urgent', 'default', 'low', 'overflow'}, KEYS[2]

-- Each window has buckets of its own, and depths of its own.
local depths_field = 'seen_depths' .. (string.match(KEYS[3], ':seen(:%d+h):') or '')
local sequence_field, accepted_field = 'sequence:' .. names[index] .. ':' .. incarnation, 'accepted:' .. owner
local known = redis.call('HMGET', ledger, 'incarnation', depths_field, 'full', sequence_field, accepted_field)
if known[1] ~= incarnation then
    return {'incarnation', known[1] or ''}
end
-- Until then, unless whoever noted it says so again.
if known[3] and tonumber(known[3]) > server_ms() then
    return {'full'}
end

-- The last number that was given.
local number = tonumber(known[4]) or 0

local function note_given(many)
    local accepted = (tonumber(known[5]) or 0) + many
    redis.call('HSET', ledger, sequence_field, string.format('%d', number + many), accepted_field, string.format('%d', accepted))
end
