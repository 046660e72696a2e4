-- line_lives: whether a waiter in a lock's line has shown in time that it is alive.
local function line_lives(alive, waiter, time)
  return tonumber(redis.call('ZSCORE', alive, waiter) or 0) >= time
end
