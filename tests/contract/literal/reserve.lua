local budget_key = KEYS[1]
local reserve_key = KEYS[2]
local tenant_id = ARGV[1]
local reserved = tonumber(ARGV[2])
local created_at_ms = ARGV[3]

if redis.call("EXISTS", reserve_key) == 1 then
  return { "ERR_ALREADY_RESERVED" }
end

local bal = tonumber(redis.call("GET", budget_key) or "0")
if bal < reserved then
  return { "ERR_INSUFFICIENT", tostring(bal) }
end

redis.call("SET", budget_key, tostring(bal - reserved))
redis.call("HSET", reserve_key,
  "tenant_id", tenant_id,
  "reserved_usd_micros", tostring(reserved),
  "created_at_ms", created_at_ms
)
return { "OK", tostring(bal - reserved) }
