"""What workers count and time (DPP-74). How many runs there are in which state is read by runs.levels."""

from prometheus_client import Counter, Histogram

QUEUE_WAIT_SECONDS = Histogram(
    "dpp_run_queue_wait_seconds",
    "From a run's acceptance to its start.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 3_600),
)
PACK_SECONDS = Histogram(
    "dpp_pack_seconds",
    "How long packs work, by pack and how it ended.",
    ["pack", "end"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 90, 120),
)
FINISH_SECONDS = Histogram(
    "dpp_run_finish_seconds",
    "From the pack's end to the commit.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
STARTS_LOST = Counter("dpp_run_starts_lost_total", "Messages whose run was started or ended by another.")
LEASES_LOST = Counter("dpp_run_leases_lost_total", "Packs stopped because their worker lost the lease.")
FINALIZE_LOSERS = Counter("dpp_finalize_losers_total", "Finishers that another was faster than, by step.", ["step"])
