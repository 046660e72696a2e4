-- read_lease: for how many ms the longest of an owner's read holds lasts still; 0 if none lives.
-- USES read_holds
local function read_lease(lock, owner, count)
  local holds, longest = read_holds(lock, owner), 0
  for i = 1, count do longest = math.max(longest, redis.call('PTTL', holds .. i)) end
  return longest
end
