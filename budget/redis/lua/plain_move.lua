-- Add `more_counted` and `more_used` to the scopes from KEYS[first] on, in the windows that they share with `date`.
-- Nearly every scope is of that date and has short numbers; for it there is no function and no table here, since they cost
-- as much as all else. What is not plain is left to counters.lua.
local is_short = math.abs(more_counted) < 8e15 and math.abs(more_used) < 8e15
for at = first, #KEYS do
  local seen = redis.pcall('HMGET', KEYS[at], 'date', 'counted', 'used')
  local day, week, month, total = string.match(seen[2] or '', '^(%-?[0-9]+) (%-?[0-9]+) (%-?[0-9]+) (%-?[0-9]+)$')
  local used_day, used_week, used_month, used_total = string.match(seen[3] or '', '^(%-?[0-9]+) (%-?[0-9]+) (%-?[0-9]+) (%-?[0-9]+)$')
  if seen[1] == date and total and used_total and is_short
    and #day < 16 and #week < 16 and #month < 16 and #total < 16
    and #used_day < 16 and #used_week < 16 and #used_month < 16 and #used_total < 16 then
    local more, its = more_counted, more_used
    redis.call('HSET', KEYS[at], 'counted', string.format('%d %d %d %d', day + more, week + more, month + more, total + more),
      'used', string.format('%d %d %d %d', used_day + its, used_week + its, used_month + its, used_total + its))
  elseif total and used_total then
-- include counters.lua
    move(KEYS[at], date, more_counted, more_used)
  end
end
