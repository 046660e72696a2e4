-- fair_tell: tell a waiter of a fair lock that the lock is free and its turn has come. A session that hears of grants
-- hears of this as well.
local function fair_tell(q, owner, grant)
  if grant then
    redis.call(q.publish, q.told .. string.match(owner, '^[^:]*'), owner)
  else
    redis.call(q.publish, q.channel .. owner, '0')
  end
end
