-- line_tell: tell the session of a waiter in a lock's line something, if anybody hears it there, and say whether it was
-- told.
-- USES hears
local function line_tell(l, waiter, what)
  local channel = l.line .. ':' .. string.match(waiter, '^[^:]*')
  return hears(l, channel) and type(redis.pcall(l.publish, channel, what)) == 'number'
end
