-- permit_remove: take the ids, those from the first on, off the permits that are taken; not more
-- at a time than a call may have arguments.
local function permit_remove(permits, ids, first)
  for i = first, #ids, 1000 do
    redis.call('ZREM', permits, unpack(ids, i, math.min(i + 999, #ids)))
  end
end
