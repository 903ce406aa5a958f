-- What stands as the run's hold, `held`, and whether it `is_amount`. What is none was written by nobody here, and only a
-- rebuild knows what it was: it is lost as much as a hold that is gone. So is every hold of a tenant whose key is no hash.
local held = redis.pcall('HGET', KEYS[3], run)
local is_amount = type(held) == 'string' and #held <= 16 and string.find(held, '^[0-9]+$') and tonumber(held) <= 9007199254740991
