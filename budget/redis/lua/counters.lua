-- The counters of a scope, and what moves them; included where a scope stands. A scope is a tenant, or the lineage of one
-- of its keys. It is a hash without an expiry; four numbers are of day, week, month and total, with a space between each:
--   revision   of the change of caps that is in force
--   date       the newest date a run was held for: YYYYMMDD, then YYYYMMDD of its Monday; sixteen zeros before the first
--   limits     four numbers; `-` where there is none
--   counted    four numbers: what runs of the windows that `date` lies in hold and were charged
--   used       four numbers: what they were charged
-- A hash that stands is exact, whatever is capped now. One that is absent, or in which a field is missing or is not this,
-- is lost, and never zero. Numbers stand four in a field because a field that is read or written costs more than they do.
-- What is plain is done by plain_hold.lua and plain_move.lua, in the same way: a server makes these functions at each call.

local UNDATED = '0000000000000000'
local PERIODS = {'day', 'week', 'month', 'total'}

local function four_in(text)
  local day, week, month, total = string.match(text or '', '^(%-?[0-9]+) (%-?[0-9]+) (%-?[0-9]+) (%-?[0-9]+)$')
  if day and #day < 19 and #week < 19 and #month < 19 and #total < 19 then return {day, week, month, total} end
end

local function limits_in(text)
  local four = {string.match(text or '', '^([-0-9]+) ([-0-9]+) ([-0-9]+) ([-0-9]+)$')}
  for at = 1, #four do
    if four[at] ~= '-' and string.find(four[at], '-', 1, true) then return nil end
  end
  return four[4] and four
end

-- A scope as it stands; nil where it is absent, false where it is lost.
local function scope_of(key)
  local seen = redis.pcall('HMGET', key, 'revision', 'date', 'limits', 'counted', 'used')
  local revision, date = seen[1], seen[2]
  if not (seen.err or revision or date or seen[3] or seen[4] or seen[5]) then return nil end
  if not revision or not date or string.find(revision, '[^0-9]') then return false end
  if #date ~= 16 or string.find(date, '[^0-9]') then return false end
  local limits, counted, used = limits_in(seen[3]), four_in(seen[4]), four_in(seen[5])
  if not limits or not counted or not used then return false end
  return {revision = tonumber(revision), date = date, limits = limits, counted = counted, used = used}
end

-- Whether two dates lie in one window of the period.
local function is_shared(period, one, other)
  if one == other or period == 4 then return true end
  if period == 2 then return string.sub(one, 9, 16) == string.sub(other, 9, 16) end
  local digits = period == 1 and 8 or 6
  return string.sub(one, 1, digits) == string.sub(other, 1, digits)
end

-- Lua counts exactly to 2^53. Past it the server adds, which counts to 2^63: nothing that is stored is ever rounded.
local function sum(key, text, micros)
  if micros == 0 then return text end
  redis.call('HSET', key, 'sum', (string.gsub(text, '^(%-?)0+(%d)', '%1%2')))
  redis.call('HINCRBY', key, 'sum', string.format('%.0f', micros))
  local exact = redis.call('HGET', key, 'sum')
  redis.call('HDEL', key, 'sum')
  return exact
end

-- Four numbers, and what is added to each, as the text of their sums.
local function sums(key, four, day, week, month, total)
  local most = math.max(#four[1], #four[2], #four[3], #four[4])
  if most < 16 and total < 8e15 and total > -8e15 then
    return string.format('%.0f %.0f %.0f %.0f', four[1] + day, four[2] + week, four[3] + month, four[4] + total)
  end
  return table.concat({sum(key, four[1], day), sum(key, four[2], week), sum(key, four[3], month), sum(key, four[4], total)}, ' ')
end

-- What the end of a hold, or a credit of a run, moves: in the windows that its date shares with the scope's.
local function move(key, date, counted, used)
  local seen = redis.pcall('HMGET', key, 'date', 'counted', 'used')
  local last, were_counted, were_used = seen[1], four_in(seen[2]), four_in(seen[3])
  if seen.err or not last or #last ~= 16 or string.find(last, '[^0-9]') or not were_counted or not were_used then return end
  local day, week, month = 1, 1, 1
  if last ~= date then
    day, week, month = is_shared(1, date, last) and 1 or 0, is_shared(2, date, last) and 1 or 0, is_shared(3, date, last) and 1 or 0
  end
  redis.call('HSET', key, 'counted', sums(key, were_counted, day * counted, week * counted, month * counted, counted),
    'used', sums(key, were_used, day * used, week * used, month * used, used))
end
