"""What workers count and time, and how many runs there are in which state (DPP-74).

Every figure read at a scrape comes from a partial index that holds only what it counts, so the scrape costs the same at
any age of the table; ended runs are counted over the last hour, not for ever.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from django.db.models import Count
from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from dpp_project import clock
from dpp_project.observe import metrics
from runs.models import Run
from runs.reads import for_recovery
from runs.states import TERMINAL, UNENDED_MONEY, MoneyState, Stage, Status

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
PROGRESS_DROPPED = Counter("dpp_progress_dropped_total", "Frames of progress that Redis did not take.")

ENDED_WITHIN: Final = timedelta(hours=1)


@metrics.metrics_collector("runs")
def collect_runs() -> Iterable[Metric]:
    open_runs = GaugeMetricFamily(
        "dpp_runs_open", "Runs that have not ended, by state.", labels=["status", "money_state", "stage"]
    )
    for status, money_state, stage, count in open_by_state():
        open_runs.add_metric([status, money_state, stage or ""], count)
    ended = GaugeMetricFamily(
        "dpp_runs_ended_last_hour", "Runs whose last step ended them within the hour.", labels=["status", "reason"]
    )
    for status, reason, count in ended_lately():
        ended.add_metric([status, reason or ""], count)
    waited = for_recovery.waited_for_a_worker(now=clock.now())
    waits = GaugeMetricFamily("dpp_runs_oldest_queued_seconds", "How long the oldest queued run has waited.")
    waits.add_metric([], waited.total_seconds() if waited else 0)
    return [open_runs, ended, waits]


def open_by_state() -> list[tuple[str, str, str | None, int]]:
    """Every state there can be, also those nobody is in: an alert needs the zero."""
    found: dict[tuple[str, str, str | None], int] = {
        (status.value, money.value, stage and stage.value): 0
        for status, money, stage in (
            (Status.QUEUED, MoneyState.NONE, None),
            (Status.QUEUED, MoneyState.RESERVED, None),
            (Status.PROCESSING, MoneyState.RESERVED, None),
            (Status.QUEUED, MoneyState.NONE, Stage.CLAIMED),
            (Status.QUEUED, MoneyState.RESERVED, Stage.CLAIMED),
            (Status.PROCESSING, MoneyState.RESERVED, Stage.CLAIMED),
        )
    }
    counted = (
        Run.objects.filter(money_state__in=sorted(UNENDED_MONEY))
        .order_by()
        .values_list("status", "money_state", "finalize_stage")
        .annotate(count=Count("pk"))
    )
    found |= {(status, money, stage): count for status, money, stage, count in counted}
    return [(*state, count) for state, count in found.items()]


def ended_lately() -> list[tuple[str, str | None, int]]:
    """By the time of the last step; what was disputed or expired within the hour is counted once more."""
    found: dict[tuple[str, str | None], int] = {(status.value, None): 0 for status in sorted(TERMINAL)}
    counted = (
        Run.objects.filter(finalize_stage=Stage.COMMITTED, updated_at__gte=clock.now() - ENDED_WITHIN)
        .order_by()
        .values_list("status", "last_error_reason_code")
        .annotate(count=Count("pk"))
    )
    found |= {(status, reason): count for status, reason, count in counted}
    return [(*ending, count) for ending, count in found.items()]
