-- read_longest: for how many ms the longest read hold lasts still, of all owners but one; 0 if
-- none lives. It looks no further than a hold that lasts enough. Owners whose holds have all run
-- out, and who still count, are taken out on the way.
-- USES read_lease
local function read_longest(lock, except, enough)
  local cursor, longest = '0', 0
  repeat
    local page = redis.call('HSCAN', lock, cursor)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local owner, count = page[2][i], tonumber(page[2][i + 1])
      if count and owner ~= except then -- the mode is no number
        local lasts = read_lease(lock, owner, count)
        if lasts == 0 then redis.call('HDEL', lock, owner) end
        longest = math.max(longest, lasts)
        if longest >= enough then return longest end
      end
    end
  until cursor == '0'
  return longest
end
