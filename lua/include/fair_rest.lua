-- fair_rest: have those soon forgotten who are not in a fair lock's queue any more because nobody heard, now that
-- nobody else is in it.
local function fair_rest(q)
  redis.call('PEXPIRE', q.ours, '15000')
  redis.call('PEXPIRE', q.alive, '15000')
end
