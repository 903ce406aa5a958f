"""What waiting counts."""

from prometheus_client import Counter

BEGUN = Counter("dpp_waits_begun_total", "Requests that began to wait, by what for.", ["what"])
ENDED = Counter("dpp_waits_ended_total", "Waits that are over, by what for and why.", ["what", "end"])
LOOKS_FAILED = Counter(
    "dpp_watch_failures_total", "Looks of a watcher whose service did not answer, by watcher.", ["of"]
)
