-- rlock_acquire: take a lock, raise its hold count, or say how long it is taken.
-- A copy of the call changes nothing but the expiry, which it may extend, and a count that
-- was lowered since; one that comes after its not_after changes nothing at all.
--
-- KEYS[1]  lock       hash {wire owner -> hold count}, expires with its longest lease
-- KEYS[2]  token      string, the last fencing token issued, expires only with ARGV[6]; only with fencing
--
-- The last arguments may be missing, since each takes time to read.
-- ARGV[1]  owner      "<session>:<number>", the wire owner
-- ARGV[2]  not_after  server ms; executed later, the call refuses itself
-- ARGV[3]  lease      ms, a whole number, 0 < lease < 2^53; missing: 30000
-- ARGV[4]  target     hold count to raise to; 1 creates the lock, above 1 never does; missing: 1
-- ARGV[5]  age        "age": tell how long the server has been up; "table: 0x<mark>": only if that is not its
--                     mark; else "", or missing
-- ARGV[6]  ttl        of the token's key, ms, a whole number; missing: that never expires
--
-- REPLY    now               held, without KEYS[2] and age; now in server ms
-- REPLY    {1, now, token}   held; token of this owner, as a text from 2^53 on
-- REPLY    {1, now, token, up, run, mark}  the same with age; token is 0 without KEYS[2]; up in s, -1: the
--                            server does not tell, 0 also if it cannot be what it tells; run: its run id's
--                            first 48 bits; mark: by which to ask next time, 0: it has none
-- REPLY    {0, 0, pttl}      another owner has it for pttl ms; -1: it has no expiry
-- REPLY    {-1, 0}           nothing there to re-enter
-- REPLY    {-2, now}         too late: nothing was changed

local KEYS, ARGV, call = KEYS, ARGV, redis.call -- globals take longer to read
local lock, token = KEYS[1], KEYS[2]
local owner, lease, target = ARGV[1], ARGV[3] or '30000', ARGV[4] or '1'

if ARGV[3] and (not string.find(lease, '^[1-9]%d*$') or #lease > 15) then
  -- USES check_lease
  local _, mistake = check_lease(lease)
  if mistake then return mistake end
end

local pttl = call('PTTL', lock)
local free = pttl == -2
local fields = not free and call('HMGET', lock, owner, 'mode')
local count = fields and tonumber(fields[1])
if not count then
  if target ~= '1' then return {-1, 0} end
  if not free then
    -- USES wrong_lock
    return fields[2] and wrong_lock() or {0, 0, pttl}
  end
end

local clock = call('TIME')
local time = clock[1] * 1000 + clock[2] / 1000 -- a reply has whole ms
if time > ARGV[2] + 0 then return {-2, time} end

-- A first acquisition that finds itself is a copy, its token is the last one issued; a re-entry
-- that wants a token is the first hold of this owner to want one.
local issued = 0
if token then
  -- USES token_next
  issued = tonumber(count and target == '1' and call('GET', token) or token_next(token, ARGV[6]))
  if issued >= 9007199254740992 then issued = call('GET', token) end -- with all its digits
end

if free then
  call('HSET', lock, owner, '1')
  local done = redis.pcall('PEXPIRE', lock, lease)
  if done ~= 1 then -- refused: no lock may ever stand without an expiry
    call('DEL', lock)
    return done
  end
else -- ours already
  if pttl < tonumber(lease) then call('PEXPIRE', lock, lease) end
  if count < tonumber(target) then call('HSET', lock, owner, target) end
end
local age = ARGV[5] or ''
if age == '' or age == tostring(redis) then return token and {1, time, issued} or time end
-- USES uptime
return {1, time, issued, uptime(time)}
