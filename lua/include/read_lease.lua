-- read_lease: for how many ms the longest of an owner's read holds lasts still; 0 if none lives,
-- nil if nobody can tell: the slot moves, and the key of one may be on another node.
-- USES here read_holds
local function read_lease(lock, owner, count)
  local holds, longest = read_holds(lock, owner), 0
  for i = 1, count do
    local pttl = here('PTTL', holds .. i)
    -- Which node is new to the slot finds no key that is still on the old one, and says so only of
    -- several at once. There is no hold of number 0, so nothing is deleted.
    if not pttl or pttl == -2 and not here('DEL', holds .. i, holds .. 0) then return nil end
    longest = math.max(longest, pttl)
  end
  return longest
end
