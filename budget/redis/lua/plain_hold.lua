-- Whether a hold of `micros` is plainly within the scopes from KEYS[8] on: `is_plain`, and then it is counted in them.
-- Nearly every scope that stands is of the run's date, has short numbers, and room; for it there is no function and no
-- table here, since they cost as much as all else. What is not plain is left to counters.lua, and nothing is counted.
local sums, is_plain = {}, date ~= '' and (KEYS[8] or known_of_all == 0) and (KEYS[9] or known_of_one == 0)
for at = 8, #KEYS do
  local known = at == 8 and known_of_all or known_of_one
  local seen = redis.pcall('HMGET', KEYS[at], 'revision', 'date', 'limits', 'counted', 'used')
  local revision, last = seen[1], seen[2]
  if revision and last == date and seen[3] and seen[4] and seen[5] then
    local most_day, most_week, most_month, most_total = string.match(seen[3], '^([-0-9]+) ([-0-9]+) ([-0-9]+) ([-0-9]+)$')
    local day, week, month, total = string.match(seen[4], '^(%-?[0-9]+) (%-?[0-9]+) (%-?[0-9]+) (%-?[0-9]+)$')
    local used_day, used_week, used_month, used_total = string.match(seen[5], '^(%-?[0-9]+) (%-?[0-9]+) (%-?[0-9]+) (%-?[0-9]+)$')
    if is_plain and most_total and total and used_total and micros < 8e15
      and not string.find(revision, '[^0-9]') and tonumber(revision) >= known
      and #day < 16 and #week < 16 and #month < 16 and #total < 16
      and #used_day < 19 and #used_week < 19 and #used_month < 19 and #used_total < 19 then
      day, week, month, total = day + micros, week + micros, month + micros, total + micros
      -- A limit that is none is 0 here: below every counter above it.
      if day > 0 and week > 0 and month > 0 and total > 0
        and (most_day == '-' or (tonumber(most_day) or 0) >= day)
        and (most_week == '-' or (tonumber(most_week) or 0) >= week)
        and (most_month == '-' or (tonumber(most_month) or 0) >= month)
        and (most_total == '-' or (tonumber(most_total) or 0) >= total) then
        sums[at] = string.format('%d %d %d %d', day, week, month, total)
      end
    end
  end
  if not sums[at] and (known > 0 or revision or last or seen[3] or seen[4] or seen[5] or seen.err) then is_plain = false end
end
for at = 8, is_plain and #KEYS or 0 do
  if sums[at] then redis.call('HSET', KEYS[at], 'counted', sums[at]) end
end
