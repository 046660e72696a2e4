-- check_token: an error to reply if what a string holds is the count of a semaphore or a latch rather than the token of
-- a lock's holder, or nil: a lock expires.
local function check_token(holder, pttl)
  if pttl ~= -1 or not string.find(holder, '^-?%d+$') then return nil end
  return redis.error_reply('WRONGTYPE Operation against a key holding a count')
end
