-- Write one batch of a tenant's money as Postgres knows it, behind a closed gate.
--
-- KEYS  1 budget:{tenant}:balance_usd_micros   2 holds:{tenant}
--       3 budget:epoch   4 budget:{tenant}:seq   5 budget:{tenant}:gate
--       then two for each item: reserve:{run} and receipt:{run}; for a credit, credit:{entry} twice;
--       for a scope, caps:{tenant} or caps:{tenant}:{lineage} twice
-- ARGV  1 tenant_id   2 the token one of the two gates was closed with   3 balance, signed   4 begin|more
--       then four for each item:
--         hold     run_id    micros    created_at_ms    open in the database: held again, its receipt void
--         none     run_id    0         0                open, never reserved as far as the database knows: no trace left
--         receipt  run_id    charge    refund           ended in the database: its receipt, no hold
--         credit   entry_id  amount    0|1              counted in the balance: its receipt; 1: its row is pending, and
--                                                       the receipt does not expire
--         caps     lineage   numbers   0                a scope, as counters.lua says; of the tenant itself where the
--                                                       lineage is empty. The numbers are 14 words with a space between
--                                                       each: revision, date, then four limits (`-`: none),
--                                                       four counted, four used, of day, week, month and total each.
--                                                       Empty: the scope is dropped
--
-- OK                     written; `begin` has first dropped the tenant's holds and set the balance
-- ERR_SUPERSEDED         all money is not closed by this token, nor is it open and this tenant closed by it: nothing changed
-- ERR_ARGUMENT <name>    nothing changed

-- include counters.lua

local tenant, token, balance, mode = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local function digits(text)
  return text and #text <= 16 and string.match(text, '^[0-9]+$') and tonumber(text) <= 9007199254740991
end

-- The fields of a scope as HSET takes them; nil where the words are not those of one.
local function fields_of(numbers)
  local four = ' ([^ ]+ [^ ]+ [^ ]+ [^ ]+)'
  local revision, date, limits, counted, used = string.match(numbers, '^([^ ]+) ([^ ]+)' .. four .. four .. four .. '$')
  if not revision or not digits(revision) or #date ~= 16 or string.find(date, '[^0-9]')
    or date ~= UNDATED and string.sub(date, 1, 1) == '0' then return nil end
  local each = limits_in(limits)
  if not each or not four_in(counted) or not four_in(used) then return nil end
  for period = 1, 4 do
    if each[period] ~= '-' and not digits(each[period]) then return nil end
  end
  local fields = {'revision', revision, 'date', date, 'limits', limits, 'counted', counted, 'used', used}
  return fields
end

if not tenant or tenant == '' then return {'ERR_ARGUMENT', 'tenant_id'} end
if not token or token == '' then return {'ERR_ARGUMENT', 'token'} end
if not digits((string.gsub(balance or '', '^%-', ''))) then return {'ERR_ARGUMENT', 'balance'} end
if mode ~= 'begin' and mode ~= 'more' then return {'ERR_ARGUMENT', 'mode'} end
if KEYS[1] ~= 'budget:' .. tenant .. ':balance_usd_micros' or KEYS[2] ~= 'holds:' .. tenant
  or KEYS[3] ~= 'budget:epoch' or KEYS[4] ~= 'budget:' .. tenant .. ':seq'
  or KEYS[5] ~= 'budget:' .. tenant .. ':gate' or (#KEYS - 5) * 2 ~= #ARGV - 4 then
  return {'ERR_ARGUMENT', 'keys'}
end
for item = 1, (#KEYS - 5) / 2 do
  local kind, id, first, second = unpack(ARGV, 1 + 4 * item, 4 + 4 * item)
  local key, other = KEYS[4 + 2 * item], KEYS[5 + 2 * item]
  if kind == 'credit' then
    if key ~= 'credit:' .. id or other ~= key then return {'ERR_ARGUMENT', 'keys'} end
    first = string.gsub(first, '^%-', '')
  elseif kind == 'caps' then
    if key ~= 'caps:' .. tenant .. (id == '' and '' or ':' .. id) or other ~= key then return {'ERR_ARGUMENT', 'keys'} end
    if first ~= '' and not fields_of(first) then return {'ERR_ARGUMENT', 'item'} end
    first = '0'
  elseif kind == 'hold' or kind == 'none' or kind == 'receipt' then
    if key ~= 'reserve:' .. id or other ~= 'receipt:' .. id then return {'ERR_ARGUMENT', 'keys'} end
  else
    return {'ERR_ARGUMENT', 'item'}
  end
  if not digits(first) or not digits(second) or kind == 'hold' and first == '0' then return {'ERR_ARGUMENT', 'item'} end
end

local gates = redis.call('MGET', KEYS[3], KEYS[5])
-- A tenant's token counts only while all money is open. Of two rebuilds that cross, the one that closed last took the newer
-- snapshot, and so the older one is refused.
local whole = gates[1] == token
local alone = gates[2] == token and gates[1] and string.sub(gates[1], 1, 7) ~= 'closed.'
if not whole and not alone then return {'ERR_SUPERSEDED'} end

redis.call('INCR', KEYS[4])
if mode == 'begin' then
  redis.call('DEL', KEYS[2])
  redis.call('SET', KEYS[1], balance)
  -- Where the whole of Redis is rebuilt, what had closed this one tenant is over.
  if whole then redis.call('DEL', KEYS[5]) end
end
for item = 1, (#KEYS - 5) / 2 do
  local kind, id, first, second = unpack(ARGV, 1 + 4 * item, 4 + 4 * item)
  local key, other = KEYS[4 + 2 * item], KEYS[5 + 2 * item]
  redis.call('DEL', key, other)
  if kind == 'hold' then
    redis.call('HSET', KEYS[2], id, first)
    redis.call('HSET', key, 'tenant_id', tenant, 'reserved_usd_micros', first, 'created_at_ms', second)
    redis.call('EXPIRE', key, 3600)
  elseif kind == 'receipt' then
    redis.call('SET', other, first .. ' ' .. second .. ' ' .. balance .. ' ' .. tenant, 'EX', 86400)
  elseif kind == 'credit' then
    redis.call('SET', key, first .. ' ' .. balance .. ' ' .. tenant)
    if second == '0' then
      redis.call('EXPIRE', key, 86400)
    end
  elseif kind == 'caps' and first ~= '' then
    redis.call('HSET', key, unpack(fields_of(first)))
  end
end
return {'OK'}
