-- lock_renew: extend many locks, each for its own owner. None is ever shortened.
--
-- KEYS[i]  lock   hash {wire owner -> hold count}
--
-- ARGV[1]      lease  ms, a whole number, 0 < lease < 2^53; 1: only to look who has what
-- ARGV[i + 1]  owner  wire owner of KEYS[i]
--
-- REPLY    {now, r1, r2, ...}  now in server ms; ri of KEYS[i]: 1 extended, n above that: it
--                              lasts longer already, for n ms; 0 no longer this owner's, or the
--                              server's error as a text
--
-- USES     renew_locks

return renew_locks(ARGV[1], function(i)
  local held = redis.pcall('HEXISTS', KEYS[i], ARGV[i + 1])
  return type(held) == 'table' and held or held == 1
end)
