-- setlock_acquire: take a lock that is one string, as SET with NX and PX does, or say for how long it
-- is taken. A copy of the call, if it says that it is one, changes nothing but the expiry, which it
-- may extend; one that comes after its not_after changes nothing at all.
--
-- KEYS[1]  lock       string, the holder's token; expires with its lease
--
-- ARGV[1]  token      of the one who asks
-- ARGV[2]  lease      ms, a whole number, 0 < lease < 2^53
-- ARGV[3]  not_after  server ms; executed later, the call refuses itself
-- ARGV[4]  mode       first: of the calls with this token; again: an earlier one may have been
--                     executed; adopt: whoever has the token has the lock, and hands it over
-- ARGV[5]  age        "age": tell how long the server has been up; only then it is there
--
-- REPLY    {1, now}              held; now in server ms
-- REPLY    {1, now, 0, up, run}  the same with ARGV[5]; up in s, -1: the server does not tell, 0 also
--                                if it cannot be what it tells; run: its run id's first 48 bits
-- REPLY    {0, 0, pttl}          another has it for pttl ms; -1: it has no expiry
-- REPLY    {-1, 0}               not held by the token that is to be adopted
-- REPLY    {-2, now}             too late: nothing was changed
--
-- USES     check_lease now uptime

local lock, token, mode = KEYS[1], ARGV[1], ARGV[4]
local lease, mistake = check_lease(ARGV[2])
if mistake then return mistake end

local holder = redis.call('GET', lock)
local ours = holder == token and mode ~= 'first'
if not ours then
  if mode == 'adopt' then return {-1, 0} end
  if holder then return {0, 0, redis.call('PTTL', lock)} end
end

local time = now()
if time > tonumber(ARGV[3]) then return {-2, time} end
if not ours then
  redis.call('SET', lock, token, 'PX', ARGV[2])
elseif redis.call('PTTL', lock) < lease then
  redis.call('PEXPIRE', lock, ARGV[2])
end
if not ARGV[5] then return {1, time} end
return {1, time, 0, uptime(time)}
