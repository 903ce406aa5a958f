-- A run with a turn has started: no turn that is drawn from now on is before it.
--
-- KEYS[1]  fair:now
-- ARGV     1 its turn
-- answers  1 it was noted, 0 a later one stands
local now = redis.call('GET', KEYS[1])
if now and tonumber(now) >= tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', 86400)
return 1
