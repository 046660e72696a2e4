-- lock_asked: whether somebody has asked a holder for its lock.
--
-- KEYS[1]  asked   hash {wire owner or token -> "1"}: who was asked
--
-- ARGV[1]  holder  wire owner or token
--
-- REPLY    1  somebody has
-- REPLY    0  nobody has, in the last minute

return redis.call('HEXISTS', KEYS[1], ARGV[1])
