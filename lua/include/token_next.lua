-- token_next: issue a fencing token of a lock. With a ttl, in ms, it is the server's clock in us, or one more than the
-- last token if that is not lower: so it is greater than every token before, though the key may be gone. The key then
-- lives until the clock is past that token by the ttl. But one that has no expiry keeps none: somebody counts there who
-- would begin at 1 again.
local function token_next(key, ttl)
  if not ttl then return redis.call('INCR', key) end
  local clock = redis.call('TIME')
  local time = clock[1] * 1000000 + clock[2]
  local last = redis.call('GET', key)
  local expires = not last or redis.call('PTTL', key) >= 0
  local step = math.max(time - (tonumber(last or 0) or 0), 1)
  local issued = redis.call('INCRBY', key, string.format('%.0f', step))
  if expires then
    redis.call('PEXPIRE', key, string.format('%.0f', ttl + math.max(math.ceil((issued - time) / 1000), 0)))
  end
  return issued
end
