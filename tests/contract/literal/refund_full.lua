-- The document gives keys and answers only; this is its settle with the charge at zero.
local budget_key = KEYS[1]
local reserve_key = KEYS[2]

if redis.call("EXISTS", reserve_key) ~= 1 then
  return { "ERR_NO_RESERVE" }
end

local refund = tonumber(redis.call("HGET", reserve_key, "reserved_usd_micros") or "0")
local bal = tonumber(redis.call("GET", budget_key) or "0")
bal = bal + refund
redis.call("SET", budget_key, tostring(bal))
redis.call("DEL", reserve_key)
return { "OK", tostring(refund), tostring(bal) }
