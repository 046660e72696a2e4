-- read_holds: the beginning of the names of the keys that stand for an owner's read holds. The number of the hold
-- follows, from 1; a key lives as long as its hold.
local function read_holds(lock, owner)
  local tagged = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  return tagged .. ':' .. owner .. ':rwlock_timeout:'
end
