-- The oldest entries of a stream that are archived *and* past their retention; none while no group `archive` reads it, since nothing
-- is dropped before it is archived. Needs `id_above` and `standing`.
local function past_retention(stream, retention_ms, most)
    -- What the archive is done with, as the end of a range.
    local mark
    for _, group in ipairs(redis.call('EXISTS', stream) == 1 and groups_on(stream) or {}) do
        mark = group.name == 'archive' and group.settled or mark
    end
    local expired_ms, found = server_ms() - tonumber(retention_ms), {}
    for _, entry in ipairs(mark and redis.call('XRANGE', stream, '-', mark, 'COUNT', most) or {}) do
        if tonumber(string.match(entry[1], '^%d+')) >= expired_ms then
            break
        end
        found[#found + 1] = entry
    end
    return found
end
