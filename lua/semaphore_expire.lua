-- semaphore_expire: say when a semaphore is to be gone, or that it stays. A call that comes after its not_after changes
-- nothing: there may be another semaphore by then.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  permits    zset {id -> server ms when the lease is over}; only of permits with leases
--
-- ARGV[1]  when       "after" that many ms, "at" that moment, or "never"
-- ARGV[2]  ms         a whole number, 0 < ms < 2^53, server ms for a moment, which may have passed; "": never
-- ARGV[3]  not_after  server ms; executed later, the call refuses itself
--
-- REPLY    {0, now}   there is none, or it had no end before; now in server ms
-- REPLY    now        done
-- REPLY    {-2, now}  too late: nothing was changed
--
-- USES     check_lease now read_count

local semaphore, permits, when = KEYS[1], KEYS[2], ARGV[1]

local time = now()
if time > tonumber(ARGV[3]) then return {-2, time} end
local ms
if when ~= 'never' then
  local mistake
  ms, mistake = check_lease(ARGV[2])
  if mistake then return mistake end
  if when == 'at' then ms = math.max(ms - time, 1) end
  ms = string.format('%.0f', ms)
end
local free, mistake = read_count(redis.call('GET', semaphore))
if mistake then return mistake end
if permits then redis.call('ZCARD', permits) end -- is refused, before anything is changed, if that is something else
if not free then return {0, time} end

local function set(key)
  if ms then return redis.call('PEXPIRE', key, ms) end
  return redis.call('PERSIST', key)
end
-- The permits first: those that outlived the count would come back to none.
local changed = permits and set(permits) or 0
changed = changed + set(semaphore)
return changed > 0 and time or {0, time}
