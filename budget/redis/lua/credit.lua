-- Bring a ledger entry (top-up or adjustment) to the balance, once; what it gives back of a run's charge, also to the
-- windows of the run's date.
--
-- KEYS  1 budget:{tenant}:balance_usd_micros   2 credit:{entry}
--       3 budget:epoch   4 budget:{tenant}:seq   5 budget:{tenant}:gate   6 budget:evidence
--       7 caps:{tenant}   8 caps:{tenant}:{lineage}; of a run's entry only, and left out as in reserve.lua
-- ARGV  1 tenant_id   2 amount_usd_micros, signed   3 entry_id
--       4 the epoch read before the entry's pending row was: a rebuild in between has counted the entry
--       5 the run's date, as in reserve.lua; of a run's entry only
--
-- OK <new_balance> first|again            again: the first answer, nothing changed
-- ERR_LIMIT <balance>                     the balance would pass 9007199254740991 either way
-- ERR_UNAVAILABLE epoch|gate|balance      the money is being rebuilt, this tenant's is, or its balance is lost
-- ERR_TENANT_MISMATCH                     the entry reached another tenant
-- ERR_ARGUMENT <name>
-- The receipt, "<amount> <balance> <tenant_id>", stays until its pending row is gone, and 86400 s longer: the caller that
-- deletes the row lets the receipt expire. Every answer but OK first has changed nothing.
-- Counted and used move where the run and the scope share the window; a scope that is absent or lost is left to a rebuild.

local tenant, amount, entry, epoch, date = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] or ''

local function amount_is_valid(text)
  return text and #text <= 17 and string.match(text, '^%-?[1-9][0-9]*$') and math.abs(tonumber(text)) <= 9007199254740991
end

if not tenant or tenant == '' then return {'ERR_ARGUMENT', 'tenant_id'} end
if not amount_is_valid(amount) then return {'ERR_ARGUMENT', 'amount_usd_micros'} end
if not entry or entry == '' then return {'ERR_ARGUMENT', 'entry_id'} end
if not epoch or epoch == '' then return {'ERR_ARGUMENT', 'epoch'} end
if date ~= '' and (#date ~= 16 or not string.find(date, '^[1-9][0-9]*$')) then return {'ERR_ARGUMENT', 'date'} end
if #KEYS < 6 or #KEYS > 8
  or KEYS[7] and KEYS[7] ~= 'caps:' .. tenant
  or KEYS[8] and (#KEYS[8] < #KEYS[7] + 2 or string.find(KEYS[8], KEYS[7] .. ':', 1, true) ~= 1)
  or KEYS[1] ~= 'budget:' .. tenant .. ':balance_usd_micros' or KEYS[2] ~= 'credit:' .. entry
  or KEYS[3] ~= 'budget:epoch' or KEYS[4] ~= 'budget:' .. tenant .. ':seq'
  or KEYS[5] ~= 'budget:' .. tenant .. ':gate' or KEYS[6] ~= 'budget:evidence' then
  return {'ERR_ARGUMENT', 'keys'}
end

local known = redis.call('MGET', KEYS[3], KEYS[5], KEYS[1], KEYS[2])
local balance, receipt = known[3], known[4]
if known[1] ~= epoch then return {'ERR_UNAVAILABLE', 'epoch'} end
if known[2] then return {'ERR_UNAVAILABLE', 'gate'} end
if not balance or #balance > 18 or not string.match(balance, '^%-?[0-9]+$') then return {'ERR_UNAVAILABLE', 'balance'} end

if receipt then
  local left_then, whose = string.match(receipt, '^%-?[0-9]+ (%-?[0-9]+) (.+)$')
  if whose ~= tenant then return {'ERR_TENANT_MISMATCH'} end
  return {'OK', left_then, 'again'}
end

-- Both summands are exact; a sum past 2^53 may be off by one and is past the limit either way.
if math.abs(tonumber(balance) + tonumber(amount)) > 9007199254740991 then return {'ERR_LIMIT', balance} end

redis.call('INCR', KEYS[4])
redis.call('INCRBY', KEYS[1], amount)
balance = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[2], amount .. ' ' .. balance .. ' ' .. tenant)
if redis.call('LPUSH', KEYS[6], 'entry:' .. entry) > 1100 then redis.call('LTRIM', KEYS[6], 0, 999) end
-- Most tenants have no caps: they pay for one EXISTS.
if date ~= '' and KEYS[7] and redis.call('EXISTS', KEYS[7], KEYS[8] or KEYS[7]) > 0 then
  local first, more_counted, more_used = 7, -tonumber(amount), -tonumber(amount)
-- include plain_move.lua
end
return {'OK', balance, 'first'}
