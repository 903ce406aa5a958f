"""Runs on the console's first page: the open ones by state, and how many were made and how they ended by the hour."""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from django.db import connection
from django.db.models import Count
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from budget.models import LedgerEntry
from budget.money import format_plain_usd
from dpp_project import clock, durations
from dpp_project.aws import queue_depth
from dpp_project.console.dashboard import Figure, Panel, Plot, dashboard_panel
from dpp_project.heartbeats.models import ProcessHeartbeat
from dpp_project.process_env import ENV
from runs import run_ids
from runs.metrics import ended_lately, open_by_state
from runs.models import Run
from runs.reads import for_recovery
from runs.states import MoneyState, Stage, Status
from tenants.models import ApiKey, Tenant
from tenants.scopes import OPERATOR_TENANT_ID

HOURS = 24
LATE = timedelta(minutes=5)
MEASURED_MAX: Final = 10_000
REASONS_SHOWN: Final = 8
SHOWN = (Status.COMPLETED, Status.FAILED, Status.QUEUED, Status.PROCESSING)


@dashboard_panel(title="First steps", order=0, permission="runs.view_run")
def first_steps_panel() -> Panel | None:
    """Until the first run: what to do, instead of a page of zeros."""
    if Run.objects.exists():
        return None
    tenants = Tenant.objects.exclude(pk=OPERATOR_TENANT_ID)
    keys = ApiKey.objects.exclude(tenant_id=OPERATOR_TENANT_ID)
    steps = (
        ("Make a tenant", tenants.exists(), reverse("admin:tenants_tenant_changelist")),
        ("Enter money for it", LedgerEntry.objects.exists(), reverse("admin:budget_account_changelist")),
        ("Make a key for it", keys.exists(), reverse("admin:tenants_apikey_changelist")),
        ("Start a worker", ProcessHeartbeat.objects.filter(service="worker").exists(), ""),
        ("Submit a run with that key; the request to copy stands on the API's page", False, reverse("docs")),
    )
    return Panel(
        title="First steps",
        description="No run yet. This stands here until there is one.",
        headers=["State", "Step"],
        rows=[["done" if is_done else "to do", _linked(text, link)] for text, is_done, link in steps],
        wide=True,
    )


def _linked(text: str, link: str) -> SafeString | str:
    return format_html('<a href="{}">{}</a>', link, text) if link else text


@dashboard_panel(title="Runs", order=10, permission="runs.view_run", is_live=True)
def runs_panel() -> Panel:
    counts: dict[str, int] = defaultdict(int)
    for status, money_state, stage, count in open_by_state():
        counts[_run_state_on_dashboard(status, money_state, stage)] += count
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
            Figure(
                label="Being accepted",
                value=str(counts["accepted"]),
                link=f"{changelist}?status__exact=QUEUED&money_state__exact=NONE",
            ),
            Figure(
                label="In dispute",
                value=str(disputed.count()),
                note=f"${format_plain_usd(doubted_micros)}",
                link=f"{changelist}?money_state__exact=DISPUTED",
            ),
        ],
        link=changelist,
        link_text="All runs",
    )


def _run_state_on_dashboard(status: str, money_state: str, stage: str | None) -> str:
    if stage == Stage.CLAIMED:
        return "claimed"
    if status == Status.PROCESSING:
        return "working"
    return "accepted" if money_state == MoneyState.NONE else "queued"


def _oldest() -> str:
    waited = for_recovery.waited_for_a_worker(now=clock.now())
    return "" if waited is None else f"the oldest for {durations.duration_text(waited)}"


@dashboard_panel(title="Queue", order=10, permission="runs.view_run", is_live=True)
def queue_panel() -> Panel:
    """What SQS says, which may lag; how long the oldest run has waited says Postgres."""
    waiting, in_hand = queue_depth.queue_depth_of(ENV.DPP_QUEUE_URL)
    dead, _ = queue_depth.queue_depth_of(ENV.DPP_DLQ_URL)
    waited = for_recovery.waited_for_a_worker(now=clock.now())
    late = waited is not None and waited > LATE
    runs = reverse("admin:runs_run_changelist")
    return Panel(
        title="Queue",
        description="Messages that wake workers, as far as SQS can say.",
        figures=[
            Figure(label="Waiting", value=f"{waiting:,}", link=f"{runs}?status__exact=QUEUED"),
            Figure(label="In workers' hands", value=f"{in_hand:,}", link=f"{runs}?status__exact=PROCESSING"),
            Figure(
                label="Oldest run waits",
                value="none waits" if waited is None else durations.duration_text(waited),
                note=f"Longer than {durations.duration_text(LATE)}: are workers alive?" if late else "",
                link=f"{runs}?status__exact=QUEUED",
                is_bad=late,
            ),
            Figure(
                label="Dead letters in the queue",
                value=f"{dead:,}",
                link=reverse("admin:reaper_deadletter_changelist"),
                is_bad=dead > 0,
            ),
        ],
    )


_ENDED: Final = """
SELECT percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY updated_at - created_at), count(*)
  FROM (SELECT created_at, updated_at FROM runs
         WHERE finalize_stage = 'COMMITTED' AND updated_at >= now() - interval '1 hour'
         ORDER BY updated_at DESC LIMIT %s) latest
"""


@dashboard_panel(title="From submit to end", order=12, permission="runs.view_run", is_live=True)
def latency_panel() -> Panel:
    with connection.cursor() as cursor:
        cursor.execute(_ENDED, [MEASURED_MAX])
        lengths, count = cursor.fetchone()
    ended = f"{reverse('admin:runs_run_changelist')}?finalize_stage__exact=COMMITTED"
    return Panel(
        title="From submit to end",
        description=f"Runs that ended within the hour, the latest {MEASURED_MAX:,} at most.",
        figures=[
            *(
                Figure(label=f"{percent} % took at most", value=durations.short_span(length), link=ended)
                for percent, length in zip((50, 95, 99), lengths or (), strict=False)
            ),
            Figure(label="Ended", value=f"{count:,}", link=ended),
        ]
        if count
        else [],
        empty="No run ended within the hour.",
    )


@dashboard_panel(title="Failures by reason", order=13, permission="runs.view_run", is_live=True)
def failures_panel() -> Panel:
    runs = reverse("admin:runs_run_changelist")
    failed = sorted(
        ((count, reason) for status, reason, count in ended_lately() if status == Status.FAILED and count), reverse=True
    )
    return Panel(
        title="Failures by reason",
        description="Runs that ended as failed within the hour.",
        figures=[
            Figure(label=reason or "no reason", value=f"{count:,}", link=f"{runs}?{urlencode({'reason': reason})}")
            for count, reason in failed[:REASONS_SHOWN]
        ],
        empty="None failed within the hour.",
    )


@dashboard_panel(title="Runs per hour", order=11, permission="runs.view_run")
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
