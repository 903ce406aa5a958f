-- A run stands for its caller's key: write the mapping, and release the lock if it is still ours.
--
-- KEYS[1]  idem:{tenant}:{key}         hash: run_id, payload_hash, created_at_ms
-- KEYS[2]  idem_lock:{tenant}:{key}
-- KEYS[3]  budget:evidence             the row is RESERVED: Postgres must know of it from now on (docs/money.md)
-- ARGV     1 run_id   2 payload_hash   3 created_at_ms   4 when the key is free again, Unix seconds   5 the lock's token
-- answers  1 the lock was released, 0 it had lapsed, and may be another's by now
redis.call('HSET', KEYS[1], 'run_id', ARGV[1], 'payload_hash', ARGV[2], 'created_at_ms', ARGV[3])
redis.call('EXPIREAT', KEYS[1], ARGV[4])
redis.call('LPUSH', KEYS[3], 'run:' .. ARGV[1])
redis.call('LTRIM', KEYS[3], 0, 999)
if redis.call('GET', KEYS[2]) ~= ARGV[5] then return 0 end
return redis.call('DEL', KEYS[2])
