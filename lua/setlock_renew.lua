-- setlock_renew: extend many locks that are one string each. None is ever shortened.
--
-- KEYS[i]  lock   string, the holder's token
--
-- ARGV[1]      lease  ms, a whole number, 0 < lease < 2^53; 1: only to look who has what
-- ARGV[i + 1]  token  of the holder of KEYS[i]
--
-- REPLY    {now, r1, r2, ...}  now in server ms; ri of KEYS[i]: 1 extended, n above that: it
--                              lasts longer already, for n ms; 0 it does not have this token any
--                              more, or the server's error as a text
--
-- USES     check_token renew_locks

return renew_locks(ARGV[1], function(i)
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' then return holder end
  return holder == ARGV[i + 1] and (check_token(holder, redis.pcall('PTTL', KEYS[i])) or true)
end)
