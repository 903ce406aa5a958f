-- Put the limits of one scope in force: of a tenant, or of the lineage of one of its keys. (CAP-07; docs/money.md)
--
-- KEYS  1 caps:{tenant} or caps:{tenant}:{lineage}   2 budget:epoch   3 budget:{tenant}:seq   4 budget:{tenant}:gate
-- ARGV  1 tenant_id   2 the epoch the caller knows   3 revision of this change
--       4 5 6 7 the limits of day, week, month, total, in micros; empty: none
--       8 new|known   new: no run of this scope can exist yet, so that it begins at nothing
--
-- OK                                      every hold from here on meets these limits
-- ERR_ABSENT                              the scope does not stand: a rebuild of the tenant counts it
-- ERR_OLD <revision>                      this change, or a later one, is in force already
-- ERR_UNAVAILABLE epoch|gate              the money is being rebuilt, or this tenant's is
-- ERR_ARGUMENT <name>
-- Every answer but OK has changed nothing. No hold that stands is touched, and no counter of a scope that stands.

-- include counters.lua

local tenant, epoch, revision, mode = ARGV[1], ARGV[2], ARGV[3], ARGV[8]

local function is_size(text)
  return text == '0'
    or text and #text <= 16 and string.match(text, '^[1-9][0-9]*$') and tonumber(text) <= 9007199254740991
end

if not tenant or tenant == '' then return {'ERR_ARGUMENT', 'tenant_id'} end
if not epoch or epoch == '' then return {'ERR_ARGUMENT', 'epoch'} end
if not is_size(revision) or revision == '0' then return {'ERR_ARGUMENT', 'revision'} end
local limits = {}
for period, name in ipairs(PERIODS) do
  local limit = ARGV[3 + period]
  if limit ~= '' and not is_size(limit) then return {'ERR_ARGUMENT', name .. '_limit'} end
  limits[period] = limit == '' and '-' or limit
end
if mode ~= 'new' and mode ~= 'known' then return {'ERR_ARGUMENT', 'mode'} end
if #KEYS ~= 4 or KEYS[1] ~= 'caps:' .. tenant
    and (#KEYS[1] <= #tenant + 6 or string.sub(KEYS[1], 1, #tenant + 6) ~= 'caps:' .. tenant .. ':')
  or KEYS[2] ~= 'budget:epoch' or KEYS[3] ~= 'budget:' .. tenant .. ':seq'
  or KEYS[4] ~= 'budget:' .. tenant .. ':gate' then
  return {'ERR_ARGUMENT', 'keys'}
end

local known = redis.call('MGET', KEYS[2], KEYS[4])
if known[1] ~= epoch then return {'ERR_UNAVAILABLE', 'epoch'} end
if known[2] then return {'ERR_UNAVAILABLE', 'gate'} end

local scope = scope_of(KEYS[1])
if not scope and mode == 'known' then return {'ERR_ABSENT'} end
if scope and scope.revision >= tonumber(revision) then
  return {'ERR_OLD', string.format('%.0f', scope.revision)}
end

redis.call('INCR', KEYS[3])
if not scope then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'date', UNDATED, 'counted', '0 0 0 0', 'used', '0 0 0 0')
end
redis.call('HSET', KEYS[1], 'revision', revision, 'limits', table.concat(limits, ' '))
return {'OK'}
