-- What was decided about an entry (KEYS 1 its stream, 2 the stream's state, 3 ledger; ARGV 1 entry id, 2 who). The state is
-- `<state>:<entry id of its record>`; at most one decision is ever made.

-- What to answer where somebody has decided before: `already` if it was the same.
local function decided_before(wanted)
    local state = redis.call('HGET', KEYS[2], ARGV[1])
    if state then
        state = string.match(state, '^[^:]*')
        return state == wanted and 'already' or state
    end
end

-- Writes the decision down, on the stream itself and numbered like its other entries.
local function record_state(stream, said, state)
    local incarnation = redis.call('HGET', KEYS[3], 'incarnation') or ''
    local sequence_field = 'sequence:' .. stream .. ':' .. incarnation
    local number = string.format('%.0f', (tonumber(redis.call('HGET', KEYS[3], sequence_field)) or 0) + 1)
    local entry = {'XADD', KEYS[1], '*', 'record', 'state', 'of', ARGV[1], 'state', state, 'by', ARGV[2], 'incarnation', incarnation, 'sequence', number}
    for _, part in ipairs(said) do
        entry[#entry + 1] = part
    end
    local record = redis.call(unpack(entry))
    redis.call('HSET', KEYS[3], sequence_field, number)
    redis.call('HSET', KEYS[2], ARGV[1], state .. ':' .. record)
end
