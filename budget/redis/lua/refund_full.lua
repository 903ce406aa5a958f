-- Give a whole hold back; where there is none, make sure none can come.
-- (DPP-51, DPP-53 and CAP-08; docs/money.md)
--
-- KEYS  1 budget:{tenant}:balance_usd_micros   2 reserve:{run}                          as documented
--       3 holds:{tenant}   4 receipt:{run}   5 budget:epoch   6 budget:{tenant}:seq   7 budget:{tenant}:gate
--       8 budget:evidence   9 caps:{tenant}   10 caps:{tenant}:{lineage}; left out as in reserve.lua
-- ARGV  1 tenant_id   2 run_id   3 the epoch the caller knows
--       4 `held` where the run's row says that its price was held: then a hold that is not there was lost
--       5 the date it was held for, as in reserve.lua
--
-- OK <refund> <new_balance> <charge> first|tombstone|again
--                                         tombstone: no hold was there, and a late reserve will be refused
--                                         again: the first settle's or refund's answer, nothing changed
-- ERR_NO_RESERVE                          the reserve key, or the row, says that there was a hold: it was lost; or what
--                                         stands as the hold is no amount
-- ERR_UNAVAILABLE epoch|gate|balance      the money is being rebuilt, this tenant's is, or its balance is lost
-- ERR_TENANT_MISMATCH                     the run's money is another tenant's
-- ERR_ARGUMENT <name>
-- The receipt, "0 <refund> <balance> <tenant_id>", lives 86400 s. Every answer but OK first and OK tombstone has changed nothing.
-- Counted moves where the run and the scope share the window; a scope that is absent or lost is left to a rebuild.

local tenant, run, epoch, was_held, date = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == 'held', ARGV[5] or ''

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
  -- What ended a hold has charged or refunded something: this is a tombstone.
  if was_held and charged == '0' and refunded == '0' then return {'ERR_NO_RESERVE'} end
  return {'OK', refunded, left_then, charged, 'again'}
end

-- include run_hold.lua
local outcome = 'first'
if not is_amount then
  local owner = redis.call('HGET', KEYS[2], 'tenant_id')
  if owner and owner ~= tenant then return {'ERR_TENANT_MISMATCH'} end
  if held or owner or was_held then return {'ERR_NO_RESERVE'} end
  held, outcome = '0', 'tombstone'
end

redis.call('INCR', KEYS[6])
local left = redis.call('INCRBY', KEYS[1], held)
-- A reply is a Lua number: exact up to 2^53, and beyond it the key itself is asked.
balance = left <= 9007199254740991 and string.format('%d', left) or redis.call('GET', KEYS[1])
redis.call('HDEL', KEYS[3], run)
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[4], '0 ' .. held .. ' ' .. balance .. ' ' .. tenant, 'EX', 86400)
-- Its caller has claimed the run: Postgres must know of that from now on. Without `held` it may be a row that was dropped.
if was_held then
  if redis.call('LPUSH', KEYS[8], 'end:' .. run) > 1100 then redis.call('LTRIM', KEYS[8], 0, 999) end
end
-- Most tenants have no caps: they pay for one EXISTS.
if date ~= '' and KEYS[9] and redis.call('EXISTS', KEYS[9], KEYS[10] or KEYS[9]) > 0 then
  local first, more_counted, more_used = 9, -tonumber(held), 0
-- include plain_move.lua
end
return {'OK', held, balance, '0', outcome}
