local budget_key = KEYS[1]
local reserve_key = KEYS[2]
local charge = tonumber(ARGV[1])

if redis.call("EXISTS", reserve_key) ~= 1 then
  return { "ERR_NO_RESERVE" }
end

local reserved = tonumber(redis.call("HGET", reserve_key, "reserved_usd_micros") or "0")
if charge > reserved then
  charge = reserved
end
local refund = reserved - charge

local bal = tonumber(redis.call("GET", budget_key) or "0")
bal = bal + refund
redis.call("SET", budget_key, tostring(bal))
redis.call("DEL", reserve_key)
return { "OK", tostring(charge), tostring(refund), tostring(bal) }
