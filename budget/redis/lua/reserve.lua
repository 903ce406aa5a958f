-- Hold money for a run: off the balance, onto the tenant's holds, within the caps of its tenant and its key.
-- (DPP-51, DPP-52 and CAP-02; docs/money.md)
--
-- KEYS  1 budget:{tenant}:balance_usd_micros   2 reserve:{run}                          as documented
--       3 holds:{tenant}   4 receipt:{run}   5 budget:epoch   6 budget:{tenant}:seq   7 budget:{tenant}:gate
--       8 caps:{tenant}   9 caps:{tenant}:{lineage}; left out: the run counts for no key, or nowhere
-- ARGV  1 tenant_id   2 reserved_usd_micros   3 created_at_ms                           as documented
--       4 run_id   5 the epoch the caller knows
--       6 the run's date, YYYYMMDD and then YYYYMMDD of its Monday; empty: the run counts nowhere
--       7, 8 the least revision of KEYS 8 and 9 that the caller knows of; empty or 0: it knows of no cap
--
-- OK <new_balance>                        held; the reserve key lives 3600 s, the hold until it is settled or refunded
-- ERR_INSUFFICIENT <balance>
-- ERR_CAP tenant|key total|month|week|day <limit> <counted> <used> <date>
--                                         the run's window has no room: <counted> is <used> and what is held
-- ERR_DATE <date>                         a window after the run's has begun, in which nothing of it is held: a later date
-- ERR_ALREADY_RESERVED <held>             <held> is 0 when the reserve key stands without a hold, or what stands as the hold
--                                         is no amount: the holds were lost
-- ERR_CLOSED <charge>                     the run was settled or refunded, or a refund came first
-- ERR_UNAVAILABLE epoch|gate|balance|caps the money is being rebuilt, this tenant's is, or its balance or a scope is lost
-- ERR_TENANT_MISMATCH                     the run's money is another tenant's
-- ERR_ARGUMENT <name>
-- Of several refusals the first: balance, caps lost, date, then the tenant's before the key's, the longest window first.
-- Every answer but OK has changed nothing. A scope is what counters.lua says.

local tenant, amount, created, run, epoch, date = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] or ''
local least_of_all, least_of_one = ARGV[7] or '', ARGV[8] or ''

local function amount_is_valid(text)
  return text and #text <= 16 and string.match(text, '^[1-9][0-9]*$') and tonumber(text) <= 9007199254740991
end

if not tenant or tenant == '' then return {'ERR_ARGUMENT', 'tenant_id'} end
if not amount_is_valid(amount) then return {'ERR_ARGUMENT', 'reserved_usd_micros'} end
if not created or #created > 16 or not string.match(created, '^[0-9]+$') then return {'ERR_ARGUMENT', 'created_at_ms'} end
if not run or run == '' then return {'ERR_ARGUMENT', 'run_id'} end
if not epoch or epoch == '' then return {'ERR_ARGUMENT', 'epoch'} end
if date ~= '' and (#date ~= 16 or not string.find(date, '^[1-9][0-9]*$')) then return {'ERR_ARGUMENT', 'date'} end
if #least_of_all > 16 or #least_of_one > 16 or string.find(least_of_all .. least_of_one, '[^0-9]') then return {'ERR_ARGUMENT', 'least_revision'} end
if #KEYS < 7 or #KEYS > 9
  or KEYS[8] and KEYS[8] ~= 'caps:' .. tenant
  or KEYS[9] and (#KEYS[9] < #KEYS[8] + 2 or string.find(KEYS[9], KEYS[8] .. ':', 1, true) ~= 1)
  or KEYS[1] ~= 'budget:' .. tenant .. ':balance_usd_micros' or KEYS[2] ~= 'reserve:' .. run
  or KEYS[3] ~= 'holds:' .. tenant or KEYS[4] ~= 'receipt:' .. run or KEYS[5] ~= 'budget:epoch'
  or KEYS[6] ~= 'budget:' .. tenant .. ':seq' or KEYS[7] ~= 'budget:' .. tenant .. ':gate' then
  return {'ERR_ARGUMENT', 'keys'}
end

local known = redis.call('MGET', KEYS[5], KEYS[7], KEYS[1], KEYS[4])
local balance, receipt = known[3], known[4]
if known[1] ~= epoch then return {'ERR_UNAVAILABLE', 'epoch'} end
if known[2] then return {'ERR_UNAVAILABLE', 'gate'} end
if not balance or #balance > 18 or not string.match(balance, '^%-?[0-9]+$') then return {'ERR_UNAVAILABLE', 'balance'} end

if receipt then
  local charge, whose = string.match(receipt, '^([0-9]+) [0-9]+ %-?[0-9]+ (.+)$')
  if whose ~= tenant then return {'ERR_TENANT_MISMATCH'} end
  return {'ERR_CLOSED', charge}
end

local known_of_all, known_of_one = tonumber(least_of_all) or 0, tonumber(least_of_one) or 0
-- Most runs are new, and most tenants have no caps: one EXISTS says both.
local stands = known_of_all > 0 or known_of_one > 0
  or redis.call('EXISTS', KEYS[2], KEYS[8] or KEYS[2], KEYS[9] or KEYS[2]) > 0
local owner = stands and redis.call('HGET', KEYS[2], 'tenant_id')
if owner and owner ~= tenant then return {'ERR_TENANT_MISMATCH'} end
-- include run_hold.lua
if held or owner then return {'ERR_ALREADY_RESERVED', is_amount and held or '0'} end

-- A balance beyond 2^53 is compared inexactly, and is above every valid amount all the same.
if tonumber(balance) < tonumber(amount) then return {'ERR_INSUFFICIENT', balance} end

if stands then
  local micros = tonumber(amount)
-- include plain_hold.lua
  if not is_plain then
-- include counters.lua

    -- A later date ends the windows that it does not lie in: those begin at nothing.
    local function begin_windows(scope, day)
      for period = 1, 3 do
        if not is_shared(period, day, scope.date) then scope.counted[period], scope.used[period] = '0', '0' end
      end
    end

    -- The longest window without room for so much. Limits are below 2^53, and what is counted past it is above them all.
    local function first_full(scope, micros)
      for period = 4, 1, -1 do
        local limit = scope.limits[period]
        if limit ~= '-' and tonumber(limit) - tonumber(scope.counted[period]) < micros then return period end
      end
    end

    local function count_hold(key, scope, day, micros)
      local counted = sums(key, scope.counted, micros, micros, micros, micros)
      if scope.date == day then
        redis.call('HSET', key, 'counted', counted)
      else
        redis.call('HSET', key, 'date', day, 'counted', counted, 'used', table.concat(scope.used, ' '))
      end
    end

    local scopes, newest = {}, date
    for at, known in ipairs({known_of_all, known_of_one}) do
      local scope = KEYS[7 + at] and scope_of(KEYS[7 + at])
      if KEYS[7 + at] and scope == false or known > 0 and (not scope or scope.revision < known) then
        return {'ERR_UNAVAILABLE', 'caps'}
      end
      if scope and scope.date > newest then newest = scope.date end
      scopes[at] = scope
    end
    if date ~= '' then
      if newest ~= date then return {'ERR_DATE', newest} end
      for at = 1, 2 do
        local scope = scopes[at]
        if scope then begin_windows(scope, date) end
        local period = scope and first_full(scope, micros)
        if period then
          return {'ERR_CAP', at == 1 and 'tenant' or 'key', PERIODS[period], scope.limits[period], scope.counted[period],
            scope.used[period], date}
        end
      end
      for at = 1, 2 do
        if scopes[at] then count_hold(KEYS[7 + at], scopes[at], date, micros) end
      end
    end
  end
end

redis.call('INCR', KEYS[6])
local left = redis.call('DECRBY', KEYS[1], amount)
redis.call('HSET', KEYS[3], run, amount)
redis.call('HSET', KEYS[2], 'tenant_id', tenant, 'reserved_usd_micros', amount, 'created_at_ms', created)
redis.call('EXPIRE', KEYS[2], 3600)
-- A reply is a Lua number: exact up to 2^53, and beyond it the key itself is asked.
return {'OK', left <= 9007199254740991 and string.format('%d', left) or redis.call('GET', KEYS[1])}
