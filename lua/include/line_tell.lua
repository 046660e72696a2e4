-- line_tell: tell the session of a waiter in a lock's line something, and say whether anybody has heard it. Where a
-- server does not count those who listen at others (reach is 0), the waiter is taken to hear.
local function line_tell(l, waiter, what)
  local heard = redis.pcall(l.publish, l.line .. ':' .. string.match(waiter, '^[^:]*'), what)
  return type(heard) == 'number' and (heard > 0 or l.reach == '0')
end
