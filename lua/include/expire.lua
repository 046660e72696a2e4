-- expire: give a key that this script has just created its lease. If the server refuses,
-- the key goes again and the error is returned: no lock may ever stand without an expiry.
local function expire(key, lease)
  local reply = redis.pcall('PEXPIRE', key, lease)
  if type(reply) ~= 'table' then return nil end
  redis.call('DEL', key)
  return reply
end
