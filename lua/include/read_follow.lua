-- read_follow: make a lock that is read expire with the longest of its read holds, of all owners but one, and say
-- whether any lives. Owners whose holds have all run out, and that still count, are taken out on the way. With more
-- than 32 readers it leaves the expiry, and stops at the first whose hold lives. It does the same at one whose holds
-- may be on another node.
-- USES read_lease
local function read_follow(lock, except)
  local pttl = redis.call('PTTL', lock)
  local enough = redis.call('HLEN', lock) > 33 and 1 or pttl >= 0 and pttl or math.huge
  local cursor, longest = '0', 0
  repeat
    local page = redis.call('HSCAN', lock, cursor)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local owner, count = page[2][i], tonumber(page[2][i + 1])
      if count and owner ~= except then -- the mode is no number
        local lasts = read_lease(lock, owner, count)
        if not lasts then return true end
        if lasts == 0 then redis.call('HDEL', lock, owner) end
        longest = math.max(longest, lasts)
        if longest > 0 and longest >= enough then return true end
      end
    end
  until cursor == '0'
  if longest > 0 then redis.call('PEXPIRE', lock, longest) end
  return longest > 0
end
