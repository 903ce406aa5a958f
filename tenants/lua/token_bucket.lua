-- Token bucket: `limit` requests a minute, at most `limit` at once. Time is the server's own, one clock for all callers.
--
-- KEYS[1]  rate:{tenant_id}:{bucket}   hash: level (units), at (microseconds)
-- ARGV[1]  limit, 1 to 1000000 a minute
-- answers  {1 if a token was taken, else 0; whole tokens left; seconds until the bucket is full again, rounded up}
--
-- Whole numbers only. One token is 60,000,000 units, and each microsecond brings `limit` units: a minute brings exactly
-- `limit` tokens, with nothing to round. The greatest product is 1e6 * 6e7 = 6e13, exact in a double, but past what
-- tostring() writes out (%.14g): hence string.format.
local TOKEN = 60000000
local FULL_MINUTE = 60000000

local limit = tonumber(ARGV[1])
if not limit or limit ~= math.floor(limit) or limit < 1 or limit > 1000000 then
  return redis.error_reply('ERR_LIMIT limit must be a whole number from 1 to 1000000')
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full = limit * TOKEN

local kept = redis.call('HMGET', KEYS[1], 'level', 'at')
local level, at = tonumber(kept[1]), tonumber(kept[2])
if level and at then
  -- A clock set back gives nothing and starts again from where it stands.
  local elapsed = math.min(math.max(now - at, 0), FULL_MINUTE)
  level = math.min(full, level + elapsed * limit)
else
  level = full
end

local allowed = 0
if level >= TOKEN then
  allowed = 1
  level = level - TOKEN
end

redis.call('HSET', KEYS[1], 'level', string.format('%.0f', level), 'at', string.format('%.0f', now))
-- After a minute untouched the bucket is full, which is what no key means.
redis.call('EXPIRE', KEYS[1], 61)
return {allowed, math.floor(level / TOKEN), math.ceil((full - level) / (limit * 1000000))}
