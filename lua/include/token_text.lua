-- token_text: a fencing token as it is: numbers of Lua's from 2^53 on have not all their digits.
local function token_text(key, issued)
  if issued < 9007199254740992 then return issued end
  return redis.call('GET', key)
end
