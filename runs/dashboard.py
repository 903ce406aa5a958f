"""Runs on the console's first page: the open ones by state, and how many were made and how they ended by the hour."""

from collections import defaultdict
from datetime import datetime, timedelta

from django.db.models import Count
from django.urls import reverse

from budget.money import format_exact_usd
from dpp_project import clock
from dpp_project.console.dashboard import Figure, Panel, Plot, panel
from runs import run_ids
from runs.metrics import open_by_state
from runs.models import Run
from runs.operators import explanation
from runs.reads import for_recovery
from runs.states import MoneyState, Stage, Status

HOURS = 24
SHOWN = (Status.COMPLETED, Status.FAILED, Status.QUEUED, Status.PROCESSING)


@panel(title="Runs", order=10, permission="runs.view_run")
def runs_panel() -> Panel:
    counts: dict[str, int] = defaultdict(int)
    for status, money_state, stage, count in open_by_state():
        counts[_name(status, money_state, stage)] += count
    disputed = Run.objects.filter(money_state=MoneyState.DISPUTED)
    doubted_micros = sum(micros or 0 for micros in disputed.values_list("actual_cost_usd_micros", flat=True))
    changelist = reverse("admin:runs_run_changelist")
    return Panel(
        title="Runs",
        description="Runs that have not ended, by state.",
        figures=[
            Figure(
                label="Queued", value=str(counts["queued"]), note=_oldest(), link=f"{changelist}?status__exact=QUEUED"
            ),
            Figure(label="Processing", value=str(counts["working"]), link=f"{changelist}?status__exact=PROCESSING"),
            Figure(label="Finishing", value=str(counts["claimed"]), link=f"{changelist}?finalize_stage__exact=CLAIMED"),
            Figure(label="Being accepted", value=str(counts["accepted"])),
            Figure(
                label="In dispute",
                value=str(disputed.count()),
                note=f"${format_exact_usd(doubted_micros)}",
                link=f"{changelist}?money_state__exact=DISPUTED",
            ),
        ],
        link=changelist,
        link_text="All runs",
    )


def _name(status: str, money_state: str, stage: str | None) -> str:
    if stage == Stage.CLAIMED:
        return "claimed"
    if status == Status.PROCESSING:
        return "working"
    return "accepted" if money_state == MoneyState.NONE else "queued"


def _oldest() -> str:
    waited = for_recovery.waited_for_a_worker(now=clock.now())
    return "" if waited is None else f"the oldest for {explanation.span(waited)}"


@panel(title="Runs per hour", order=11, permission="runs.view_run")
def runs_by_hour_panel() -> Panel:
    """Read through the primary key, whose ids are in order of time: a day's rows and no others."""
    end = clock.now().replace(minute=0, second=0, microsecond=0)
    hours = [end - timedelta(hours=back) for back in reversed(range(HOURS))]
    found: dict[tuple[datetime, str], int] = defaultdict(int)
    counted = (
        Run.objects.filter(run_id__gte=run_ids.first_run_id_at(hours[0]))
        .order_by()
        .values_list("created_at__date", "created_at__hour", "status")
        .annotate(count=Count("pk"))
    )
    for day, hour, status, count in counted:
        found[datetime(day.year, day.month, day.day, hour, tzinfo=end.tzinfo), status] += count
    return Panel(
        title="Runs per hour",
        description=f"Runs created in the last {HOURS} hours (UTC), by their state now.",
        plot=Plot(
            labels=[f"{hour:%H}" for hour in hours],
            series={status.value.lower(): [found[hour, status] for hour in hours] for status in SHOWN},
            colors=("#16a34a", "#dc2626", "#f59e0b", "#2563eb"),
        ),
    )
