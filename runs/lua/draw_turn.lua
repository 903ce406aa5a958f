-- A run's turn among all that wait: each of a tenant's is a stride behind the one before, and none is before what has
-- started. So tenants that wait share by weight, whatever each of them floods (docs/scaling.md, Fairness).
--
-- KEYS[1]  holds:{tenant}          as many of its runs are open
-- KEYS[2]  fair:now                the turn of what started last
-- KEYS[3]  fair:guess              stands in for it until something starts: the clock of the first draw, which no turn
--                                  that was drawn before a loss is behind of
-- KEYS[4]  fair:last:{tenant}      the last turn that it drew; lost: as far ahead as its open runs
-- KEYS[5]  idem:{tenant}:{key}     only with a token: a key that has a run draws none
-- KEYS[6]  idem_lock:{tenant}:{key}
-- ARGV     1 open runs below which no turn is drawn   2 stride   3 the lock's token, or nothing
--          4 behind how many turns of its tenant's; nothing: behind the last that it drew
-- answers  {open runs, turn or nothing}; the turn as text: Lua's own numbers lose digits
local open = redis.call('HLEN', KEYS[1])
if open < tonumber(ARGV[1]) then return {open, false} end
if (ARGV[3] or '') ~= '' and (redis.call('GET', KEYS[6]) ~= ARGV[3] or redis.call('EXISTS', KEYS[5]) == 1) then
    return {open, false}
end
local stride = tonumber(ARGV[2])
local now = redis.call('GET', KEYS[2]) or redis.call('GET', KEYS[3])
if not now then
    local time = redis.call('TIME')
    now = string.format('%.0f', time[1] * 1000000 + time[2])
    redis.call('SET', KEYS[3], now, 'EX', 3600)
end
now = tonumber(now)
local last = ARGV[4] and now + ARGV[4] * stride or tonumber(redis.call('GET', KEYS[4]) or now + open * stride)
local turn = string.format('%.0f', math.max(now, last) + stride)
redis.call('SET', KEYS[4], turn, 'EX', 3600)
return {open, turn}
