-- Writes notes down: the archive's totals, for whoever balances the books, and when keys were used last. Removes before it adds: a
-- full log is emptied by the archive, which must not fail over its notes.
--
-- KEYS  1 ledger
-- ARGV  fields and values
-- returns 1
for i = 1, #ARGV, 2 do
    redis.call('HDEL', KEYS[1], ARGV[i])
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
return 1
