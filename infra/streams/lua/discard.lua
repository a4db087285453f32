-- Discards one dead letter: nothing will be done about it. It stays until its retention is over; the state record says who
-- decided so, and why. Refused for a letter that was requeued or discarded before.
--
-- KEYS  1 dead  2 dead state  3 ledger
-- ARGV  1 entry id of the dead letter  2 who  3 why
-- returns 'discarded' | 'already' | 'requeued' (before, so it was not discarded) | 'gone'
-- include state_record
-- include decide_letter

local letter, refusal = open_letter('discarded')
if refusal then
    return refusal
end
return decide(letter, 'discarded', ARGV[3])
