-- check_mode: an error to reply if the fields of a lock's hash are those of a read-write lock, or nil.
-- USES wrong_lock
local function check_mode(fields)
  for _, field in ipairs(fields) do
    if field == 'mode' then return wrong_lock() end
  end
end
