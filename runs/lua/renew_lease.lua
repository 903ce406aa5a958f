-- Let leases live on that are still their worker's. One that is gone is not made again: its end may be a cancel.
--
-- KEYS  lease:{run} of each run
-- ARGV  1 seconds to live   2… the token of each lease, in the order of KEYS
-- answers, for each: 1 renewed, 0 gone or another's
local answers = {}
for at, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[at + 1] then
    redis.call('EXPIRE', key, ARGV[1])
    answers[at] = 1
  else
    answers[at] = 0
  end
end
return answers
