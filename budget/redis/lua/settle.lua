-- End a hold: take the charge, never more than was held, give the rest back, also to the windows it was held in.
-- (DPP-51, DPP-53 and CAP-08; docs/money.md)
--
-- KEYS  1 budget:{tenant}:balance_usd_micros   2 reserve:{run}                          as documented
--       3 holds:{tenant}   4 receipt:{run}   5 budget:epoch   6 budget:{tenant}:seq   7 budget:{tenant}:gate
--       8 budget:evidence   9 caps:{tenant}   10 caps:{tenant}:{lineage}; left out as in reserve.lua
-- ARGV  1 charge_usd_micros                                                             as documented
--       2 tenant_id   3 run_id   4 the epoch the caller knows   5 the date it was held for, as in reserve.lua
--
-- OK <charge> <refund> <new_balance> first|again   again: the first settle's or refund's answer, nothing changed
-- ERR_NO_RESERVE                          neither hold nor receipt; or what stands as the hold is no amount
-- ERR_UNAVAILABLE epoch|gate|balance      the money is being rebuilt, this tenant's is, or its balance is lost
-- ERR_TENANT_MISMATCH                     the run's money is another tenant's
-- ERR_ARGUMENT <name>
-- The receipt, "<charge> <refund> <balance> <tenant_id>", lives 86400 s. Every answer but OK first has changed nothing.
-- Counted and used move where the run and the scope share the window; a scope that is absent or lost is left to a rebuild.

local charge, tenant, run, epoch, date = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] or ''

local function charge_is_valid(text)
  return text == '0'
    or text and #text <= 16 and string.match(text, '^[1-9][0-9]*$') and tonumber(text) <= 9007199254740991
end

if not charge_is_valid(charge) then return {'ERR_ARGUMENT', 'charge_usd_micros'} end
if not tenant or tenant == '' then return {'ERR_ARGUMENT', 'tenant_id'} end
if not run or run == '' then return {'ERR_ARGUMENT', 'run_id'} end
if not epoch or epoch == '' then return {'ERR_ARGUMENT', 'epoch'} end
if date ~= '' and (#date ~= 16 or not string.find(date, '^[1-9][0-9]*$')) then return {'ERR_ARGUMENT', 'date'} end
if #KEYS < 8 or #KEYS > 10
  or KEYS[9] and KEYS[9] ~= 'caps:' .. tenant
  or KEYS[10] and (#KEYS[10] < #KEYS[9] + 2 or string.find(KEYS[10], KEYS[9] .. ':', 1, true) ~= 1)
  or KEYS[1] ~= 'budget:' .. tenant .. ':balance_usd_micros' or KEYS[2] ~= 'reserve:' .. run
  or KEYS[3] ~= 'holds:' .. tenant or KEYS[4] ~= 'receipt:' .. run or KEYS[5] ~= 'budget:epoch'
  or KEYS[6] ~= 'budget:' .. tenant .. ':seq' or KEYS[7] ~= 'budget:' .. tenant .. ':gate'
  or KEYS[8] ~= 'budget:evidence' then
  return {'ERR_ARGUMENT', 'keys'}
end

local known = redis.call('MGET', KEYS[5], KEYS[7], KEYS[1], KEYS[4])
local balance, receipt = known[3], known[4]
if known[1] ~= epoch then return {'ERR_UNAVAILABLE', 'epoch'} end
if known[2] then return {'ERR_UNAVAILABLE', 'gate'} end
if not balance or #balance > 18 or not string.match(balance, '^%-?[0-9]+$') then return {'ERR_UNAVAILABLE', 'balance'} end

if receipt then
  local charged, refunded, left_then, whose = string.match(receipt, '^([0-9]+) ([0-9]+) (%-?[0-9]+) (.+)$')
  if whose ~= tenant then return {'ERR_TENANT_MISMATCH'} end
  return {'OK', charged, refunded, left_then, 'again'}
end

-- include run_hold.lua
if not is_amount then
  local owner = redis.call('HGET', KEYS[2], 'tenant_id')
  if owner and owner ~= tenant then return {'ERR_TENANT_MISMATCH'} end
  return {'ERR_NO_RESERVE'}
end

if tonumber(charge) > tonumber(held) then charge = held end
local refund = string.format('%d', tonumber(held) - tonumber(charge))

redis.call('INCR', KEYS[6])
local left = redis.call('INCRBY', KEYS[1], refund)
-- A reply is a Lua number: exact up to 2^53, and beyond it the key itself is asked.
balance = left <= 9007199254740991 and string.format('%d', left) or redis.call('GET', KEYS[1])
redis.call('HDEL', KEYS[3], run)
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[4], charge .. ' ' .. refund .. ' ' .. balance .. ' ' .. tenant, 'EX', 86400)
-- Its caller has claimed the run: Postgres must know of that from now on.
if redis.call('LPUSH', KEYS[8], 'end:' .. run) > 1100 then redis.call('LTRIM', KEYS[8], 0, 999) end
-- Most tenants have no caps: they pay for one EXISTS.
if date ~= '' and KEYS[9] and redis.call('EXISTS', KEYS[9], KEYS[10] or KEYS[9]) > 0 then
  local first, more_counted, more_used = 9, -tonumber(refund), tonumber(charge)
-- include plain_move.lua
end
return {'OK', charge, refund, balance, 'first'}
