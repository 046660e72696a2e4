-- fair_tell: tell a waiter of a fair lock that the lock is free and its turn has come. A session that hears of grants
-- hears of this as well. Who has no right to tell sessions tells the waiter on its own channel, as Redisson does.
local function fair_tell(q, owner, grant)
  local told = grant and redis.pcall(q.publish, q.told .. string.match(owner, '^[^:]*'), owner)
  if type(told) ~= 'number' then redis.call(q.publish, q.channel .. owner, '0') end
end
