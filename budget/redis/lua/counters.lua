-- What the money scripts share of a scope's counters; included in them. A scope is a tenant, or the lineage of one of
-- its keys. It is a hash without an expiry:
--   revision                      of the change of caps that is in force
--   date                          the newest date a run was held for: YYYYMMDD, then YYYYMMDD of its Monday;
--                                 sixteen zeros before the first
--   {period}_limit                day, week, month or total; absent: no limit
--   {period}_counted              what runs of the window that `date` lies in hold and were charged
--   {period}_used                 what they were charged
-- A hash that stands is exact, whatever is capped now. One that is absent, or in which something is missing or is not a
-- whole number of at most 18 digits, is lost, and never zero. Stored numbers are never rounded: what passes 2^53, to
-- which Lua counts exactly, is added by the server.

local PERIODS = {'day', 'week', 'month', 'total'}
local EXACT = 9007199254740991
local UNDATED = '0000000000000000'

local function is_date(text)
  return #text == 16 and string.find(text, '^[1-9][0-9]*$')
end

local function is_whole(text)
  return text == '0' or #text <= 18 and string.find(text, '^%-?[1-9][0-9]*$')
end

-- The scope as it stands: revision, date, four counted, four used, four limits. Nil where it is absent, false where lost.
local function scope_of(key)
  local seen = redis.pcall('HMGET', key, 'revision', 'date', 'day_counted', 'week_counted', 'month_counted', 'total_counted',
    'day_used', 'week_used', 'month_used', 'total_used', 'day_limit', 'week_limit', 'month_limit', 'total_limit')
  if seen.err then return false end
  local found = 0
  for at = 1, 14 do
    if seen[at] then
      found = found + 1
      if at ~= 2 and not is_whole(seen[at]) then return false end
    elseif at <= 10 then
      found = found - 100
    end
  end
  if found == -1000 then return nil end
  if found < 0 or not is_date(seen[2]) and seen[2] ~= UNDATED then return false end
  return seen
end

-- Whether two dates lie in one window of the period.
local function shared(period, one, other)
  if period == 1 then return string.sub(one, 1, 8) == string.sub(other, 1, 8) end
  if period == 2 then return string.sub(one, 9, 16) == string.sub(other, 9, 16) end
  if period == 3 then return string.sub(one, 1, 6) == string.sub(other, 1, 6) end
  return true
end

-- What adds `micros` to the stored number `text`: into the fields of one HSET where Lua's sum is exact.
local function add(key, fields, name, text, micros)
  local before = tonumber(text)
  local after = before + micros
  if math.abs(before) <= EXACT and math.abs(after) <= EXACT then
    fields[#fields + 1] = name
    fields[#fields + 1] = string.format('%.0f', after)
  else
    redis.call('HINCRBY', key, name, string.format('%.0f', micros))
  end
end

-- What a run's end, or a credit for it, moves: in the windows that its date shares with the scope's.
local function move(key, date, counted, used)
  local scope = scope_of(key)
  if not scope then return end
  local fields = {}
  for period, name in ipairs(PERIODS) do
    if shared(period, date, scope[2]) then
      if counted ~= 0 then add(key, fields, name .. '_counted', scope[2 + period], counted) end
      if used ~= 0 then add(key, fields, name .. '_used', scope[6 + period], used) end
    end
  end
  if #fields > 0 then redis.call('HSET', key, unpack(fields)) end
end

-- The same for the scopes among the script's keys, from the one at `first` on; nowhere without a date.
local function move_in_scopes(first, date, counted, used)
  if date == '' or (counted == 0 and used == 0) then return end
  for at = first, #KEYS do move(KEYS[at], date, counted, used) end
end

local function are_scopes(first, tenant)
  local all, one = KEYS[first], KEYS[first + 1]
  if #KEYS > first + 1 then return false end
  return (not all or all == 'caps:' .. tenant)
    and (not one or #one > #tenant + 6 and string.sub(one, 1, #tenant + 6) == 'caps:' .. tenant .. ':')
end
