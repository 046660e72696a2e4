-- renew_locks: extend the lease of each key whose owner has it, and none that lasts longer already; the reply of
-- lock_renew. A lease of 1 is a look, which leaves a key without an end alone. The function has says whether the owner
-- of a key has it, or returns the error with which the server refused to tell.
-- USES check_lease now
local function renew_locks(lease, has)
  local ms, mistake = check_lease(lease)
  if mistake then return mistake end
  local reply = {now()}

  local function extend(i)
    local held = has(i)
    if type(held) == 'table' then return held.err end
    if not held then return 0 end
    local pttl = redis.pcall('PTTL', KEYS[i])
    if type(pttl) == 'number' and (pttl > ms or ms == 1 and pttl < 0) then return math.max(pttl, 1) end
    local done = redis.pcall('PEXPIRE', KEYS[i], lease)
    return type(done) == 'table' and done.err or 1
  end

  for i = 1, #KEYS do reply[i + 1] = extend(i) end
  return reply
end
