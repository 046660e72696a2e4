-- lower: leave a number of holds in a field of a lock's hash. A server without memory refuses HSET, unless
-- something was written before: HDEL removes none.
local function lower(lock, field, count)
  redis.call('HDEL', lock, '')
  redis.call('HSET', lock, field, count)
end
