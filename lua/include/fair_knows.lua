-- fair_knows: whether an owner's session tells others where they are handed a fair lock. Those of this toolkit have
-- UUIDs of version 8. Redisson's, and those of older versions, tell each waiter on its own channel, and have version 4.
local function fair_knows(owner) return string.sub(owner, 15, 15) == '8' end
