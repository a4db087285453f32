-- A decision about a dead letter (KEYS 1 dead, 2 dead state, 3 ledger; ARGV 1 entry id, 2 who): at most one is ever made.
-- The state is `<state>:<entry id of its record>`.

-- The letter while nobody has decided about it; else nil and what to answer.
local function open_letter(wanted)
    local entry = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
    local letter = {fields = entry and entry[2] or {}, origin = ''}
    for i = 1, #letter.fields, 2 do
        if letter.fields[i] == 'record' then
            letter.is_letter = letter.fields[i + 1] == 'letter'
        elseif letter.fields[i] == 'group' then
            letter.group = letter.fields[i + 1]
        elseif letter.fields[i] == 'from_entry' then
            letter.origin = letter.fields[i + 1]
        end
    end
    if not (letter.is_letter and letter.group) then
        return nil, 'gone'
    end
    local state = redis.call('HGET', KEYS[2], ARGV[1])
    if state then
        state = string.match(state, '^[^:]*')
        return nil, state == wanted and 'already' or state
    end
    return letter
end

local function decide(letter, state, why)
    local incarnation = redis.call('HGET', KEYS[3], 'incarnation') or ''
    local sequence_field = 'sequence:dead:' .. incarnation
    local number = (tonumber(redis.call('HGET', KEYS[3], sequence_field)) or 0) + 1
    local record = redis.call(
        'XADD', KEYS[1], '*', 'record', 'state', 'group', letter.group, 'of', ARGV[1], 'state', state, 'by', ARGV[2], 'because', why,
        'incarnation', incarnation, 'sequence', string.format('%.0f', number)
    )
    redis.call('HSET', KEYS[3], sequence_field, string.format('%.0f', number))
    redis.call('HSET', KEYS[2], ARGV[1], state .. ':' .. record)
    redis.call('HINCRBY', KEYS[3], 'closed:' .. letter.group, 1)
    return state
end
