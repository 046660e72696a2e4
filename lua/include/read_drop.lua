-- read_drop: delete the keys of an owner's read holds from first to last.
-- USES read_holds
local function read_drop(lock, owner, first, last)
  local holds = read_holds(lock, owner)
  for i = first, last do redis.call('DEL', holds .. i) end
end
