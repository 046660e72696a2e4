-- owns: whether a wire owner has a lock: as a field of a hash, as the string itself, or as a permit whose lease is
-- not over.
-- USES now
local function owns(lock, as, owner)
  if as == 'field' then return redis.call('HEXISTS', lock, owner) == 1 end
  if as == 'string' then return redis.call('GET', lock) == owner end
  return (tonumber(redis.call('ZSCORE', lock, owner)) or 0) > now()
end
