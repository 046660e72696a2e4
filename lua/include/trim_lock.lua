-- trim_lock: make the lease of a key shorter if its owner has it, which has says, and it lasts longer than most;
-- the reply of lock_trim.
-- USES check_lease now
local function trim_lock(key, most, not_before, not_after, has)
  local ms, mistake = check_lease(most)
  if mistake then return mistake end
  local time = now()
  if time < tonumber(not_before) or time > tonumber(not_after) then return {-2, time} end
  if not has() then return {0, time} end
  if redis.call('PTTL', key) > ms then redis.call('PEXPIRE', key, most) end
  return time
end
