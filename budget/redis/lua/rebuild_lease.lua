-- Who rebuilds now. A lease: it runs out unless its holder renews it.
--
-- KEYS  1 budget:rebuild
-- ARGV  1 take|free   2 the holder's token   3 how long it lasts, in ms
--
-- take  1 it was free, or is ours: it lasts so long from now;   0 it is another's: nothing changed
-- free  1 it was ours and is gone;                              0 it was not: nothing changed

local holder = redis.call('GET', KEYS[1])
if ARGV[1] == 'free' then
  if holder ~= ARGV[2] then return 0 end
  return redis.call('DEL', KEYS[1])
end
if holder and holder ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
