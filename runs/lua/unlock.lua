-- Release a lock, if it is still ours: it may have lapsed, and be another's by now.
--
-- KEYS[1]  idem_lock:{tenant}:{key}
-- ARGV[1]  the token it was taken with
-- answers  1 released, 0 not ours
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
