-- A decision about a dead letter (KEYS 1 dead, 2 dead state, 3 ledger; ARGV 1 entry id, 2 who); after `state_record`.

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
    local before = decided_before(wanted)
    if before then
        return nil, before
    end
    return letter
end

local function decide(letter, state, why)
    record_state('dead', {'group', letter.group, 'because', why}, state)
    redis.call('HINCRBY', KEYS[3], 'closed:' .. letter.group, 1)
    return state
end
