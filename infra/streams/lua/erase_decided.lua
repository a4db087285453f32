-- Erases dead letters, or refused requests that were kept aside, with what was decided about them. One that nobody decided about is
-- closed by this. Where the archive reads the stream, what it has not come to is left alone.
--
-- KEYS  1 dead or quarantine  2 its state  3 ledger
-- ARGV  entry ids
-- returns how many entries went, the records of decisions among them
-- include standing

local mark
for _, group in ipairs(redis.call('EXISTS', KEYS[1]) == 1 and groups_on(KEYS[1]) or {}) do
    mark = group.name == 'archive' and place(group.delivered_to) or mark
end

local function close(entry)
    local record = value(entry[2], 'record')
    if record == 'letter' then
        redis.call('HINCRBY', KEYS[3], 'closed:' .. (value(entry[2], 'group') or ''), 1)
    elseif record == 'request' then
        local whose = (value(entry[2], 'tenant_id') or '') .. ':' .. (value(entry[2], 'source') or '')
        redis.call('HINCRBY', KEYS[3], 'decided:' .. whose, 1)
        redis.call('HINCRBY', KEYS[3], 'quarantine_bytes:' .. whose, -(tonumber(value(entry[2], 'size')) or 0))
    end
end

local erased = 0
for _, id in ipairs(ARGV) do
    local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
    if entry and not (mark and below(mark, place(id))) then
        local state = redis.call('HGET', KEYS[2], id)
        redis.call('HDEL', KEYS[2], id, 'releasing:' .. id)
        erased = erased + redis.call('XDEL', KEYS[1], id)
        if state then
            erased = erased + redis.call('XDEL', KEYS[1], string.match(state, ':(.+)$') or '0-1')
        else
            close(entry)
        end
    end
end
return erased
