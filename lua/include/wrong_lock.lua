-- wrong_lock: the error to reply where a read-write lock is meant and another lock is there, or the other way round.
-- Both are hashes; only the hash of a read-write lock has a mode.
local function wrong_lock()
  return redis.error_reply('WRONGTYPE Operation against a key holding a lock of another kind')
end
