-- read_drop: delete the keys of an owner's read holds from first to last. One that is on another
-- node stays for its lease.
-- USES here read_holds
local function read_drop(lock, owner, first, last)
  local holds = read_holds(lock, owner)
  for i = first, last do here('DEL', holds .. i) end
end
