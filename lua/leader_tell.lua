-- leader_tell: record who leads as long as it holds the lock, or forget it if it does not, and tell the watchers of a
-- change. A copy of the call, however late, changes nothing but the expiry: wire owners are never used again.
--
-- KEYS[1]  lock     hash {wire owner -> hold count}, a fair lock
-- KEYS[2]  leader   hash {owner, term, since, process}, who led last; expires
--
-- ARGV[1]  owner    "<session>:<number>", the wire owner of a leader
-- ARGV[2]  term     its fencing token, a whole number
-- ARGV[3]  since    server ms at which its term has begun; 0: now
-- ARGV[4]  process  which it is, as its session publishes it; "": it does not
-- ARGV[5]  ttl      ms, of KEYS[2]
-- ARGV[6]  publish  PUBLISH or SPUBLISH
-- ARGV[7]  channel  where the watchers listen; in a cluster, of the lock's slot
--
-- REPLY    since    it leads, since that server ms
-- REPLY    0        it does not hold the lock
--
-- USES     now

local lock, leader, owner, since = KEYS[1], KEYS[2], ARGV[1], ARGV[3]

local known = redis.call('HGET', leader, 'owner') == owner
if redis.call('HEXISTS', lock, owner) == 0 then
  if known then
    redis.call(ARGV[6], ARGV[7], '0') -- before what it tells of: it may be refused
    redis.call('DEL', leader)
  end
  return 0
end
redis.call('PEXPIRE', leader, ARGV[5]) -- of the record that is there: refused, it changes nothing
if known then return tonumber(redis.call('HGET', leader, 'since')) end
if since == '0' then since = string.format('%.0f', now()) end
redis.call(ARGV[6], ARGV[7], '1')
redis.call('HSET', leader, 'owner', owner, 'term', ARGV[2], 'since', since, 'process', ARGV[4])
redis.call('PEXPIRE', leader, ARGV[5])
return tonumber(since)
