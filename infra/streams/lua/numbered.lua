-- The nearest entry that has a number, from one end of a range towards the other, without its body.
--
-- KEYS  1 stream
-- ARGV  1 XRANGE or XREVRANGE  2 where to begin  3 where to end
-- returns {entry id, incarnation, number} | {entry id passed over last} | {} when the range has no more
-- include nearest

return nearest(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
