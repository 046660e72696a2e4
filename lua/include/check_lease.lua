-- check_lease: the lease as a number, or nil and an error to reply when it is not a whole
-- number of ms, 0 < lease < 2^53. PEXPIRE would delete the key for 0.
local function check_lease(text)
  local ms = string.match(text, '^%d+$') and tonumber(text)
  if ms and ms >= 1 and ms < 9007199254740992 then return ms end
  return nil, redis.error_reply('ERR lease must be a whole number of milliseconds, 0 < lease < 2^53')
end
