-- Whose the members of the delayed set are: retries and scheduled events that wait for their time.
--
-- KEYS  1 delayed bodies
-- ARGV  members
-- returns {{member, event id, tenant, source}, ...}; empty texts for a member without a body
local found = {}
for i, member in ipairs(ARGV) do
    local is_body, body = pcall(cmsgpack.unpack, redis.call('HGET', KEYS[1], member) or '')
    local fields, of = is_body and type(body) == 'table' and body or {}, {}
    if string.sub(member, 1, 1) == '|' then
        fields = type(fields[1]) == 'table' and fields[1] or {}
    end
    for j = 1, #fields, 2 do
        of[fields[j]] = fields[j + 1]
    end
    found[i] = {member, of['id'] or '', of['tenant_id'] or '', of['source'] or ''}
end
return found
