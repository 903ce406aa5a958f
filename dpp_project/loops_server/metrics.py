"""How often the loops of the process `events` had to be started again."""

from prometheus_client import Counter

FAILURES = Counter("dpp_events_loop_failures_total", "Loops that ended and were started again.", ["loop"])
