-- Hold money for a run: off the balance, onto the tenant's holds. (DPP-51 and DPP-52; docs/money.md)
--
-- KEYS  1 budget:{tenant}:balance_usd_micros   2 reserve:{run}                          as documented
--       3 holds:{tenant}   4 receipt:{run}   5 budget:epoch   6 budget:{tenant}:seq   7 budget:{tenant}:gate
-- ARGV  1 tenant_id   2 reserved_usd_micros   3 created_at_ms                           as documented
--       4 run_id   5 the epoch the caller knows
--
-- OK <new_balance>                        held; the reserve key lives 3600 s, the hold until it is settled or refunded
-- ERR_INSUFFICIENT <balance>
-- ERR_ALREADY_RESERVED <held>             <held> is 0 when the reserve key stands without a hold: the holds were lost
-- ERR_CLOSED <charge>                     the run was settled or refunded, or a refund came first
-- ERR_UNAVAILABLE epoch|gate|balance      the money is being rebuilt, this tenant's is, or its balance is lost
-- ERR_TENANT_MISMATCH                     the run's money is another tenant's
-- ERR_ARGUMENT <name>
-- Every answer but OK has changed nothing.

local tenant, amount, created, run, epoch = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local function amount_is_valid(text)
  return text and #text <= 16 and string.match(text, '^[1-9][0-9]*$') and tonumber(text) <= 9007199254740991
end

if not tenant or tenant == '' then return {'ERR_ARGUMENT', 'tenant_id'} end
if not amount_is_valid(amount) then return {'ERR_ARGUMENT', 'reserved_usd_micros'} end
if not created or #created > 16 or not string.match(created, '^[0-9]+$') then return {'ERR_ARGUMENT', 'created_at_ms'} end
if not run or run == '' then return {'ERR_ARGUMENT', 'run_id'} end
if not epoch or epoch == '' then return {'ERR_ARGUMENT', 'epoch'} end
if #KEYS ~= 7 or KEYS[1] ~= 'budget:' .. tenant .. ':balance_usd_micros' or KEYS[2] ~= 'reserve:' .. run
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

local owner = redis.call('HGET', KEYS[2], 'tenant_id')
if owner and owner ~= tenant then return {'ERR_TENANT_MISMATCH'} end
local held = redis.call('HGET', KEYS[3], run)
if held or owner then return {'ERR_ALREADY_RESERVED', held or '0'} end

-- A balance beyond 2^53 is compared inexactly, and is above every valid amount all the same.
if tonumber(balance) < tonumber(amount) then return {'ERR_INSUFFICIENT', balance} end

redis.call('INCR', KEYS[6])
local left = redis.call('DECRBY', KEYS[1], amount)
redis.call('HSET', KEYS[3], run, amount)
redis.call('HSET', KEYS[2], 'tenant_id', tenant, 'reserved_usd_micros', amount, 'created_at_ms', created)
redis.call('EXPIRE', KEYS[2], 3600)
-- A reply is a Lua number: exact up to 2^53, and beyond it the key itself is asked.
return {'OK', left <= 9007199254740991 and string.format('%.0f', left) or redis.call('GET', KEYS[1])}
