"""Money on the console's first page."""

from collections.abc import Mapping
from datetime import UTC, timedelta
from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from redis import RedisError

from budget import ledger
from budget.models import PendingCredit
from budget.money import format_plain_usd
from budget.rebuild import evidence
from budget.rebuild.evidence import MissingCommits
from budget.redis import scripts
from budget.redis.gate import GateClosed
from budget.usage import reading
from dpp_project import clock, durations
from dpp_project.console.dashboard import Figure, Panel, Plot, dashboard_panel
from dpp_project.jobs.models import JobReport

DAYS = 30
WEEK = 7
TENANTS_SHOWN = 8
NO_DRIFT = "$0.00"
NEVER = "never verified"


@dashboard_panel(title="Money", order=20, permission="budget.view_account")
def money_panel() -> Panel:
    sums = ledger.ledger_sums().values()
    pending, accounts = PendingCredit.objects.count(), reverse("admin:budget_account_changelist")
    proof = JobReport.objects.filter(job="money_verify", ended_at__isnull=False, dry_run=False)
    last = proof.order_by("-started_at").first()
    drift = NEVER if last is None else _drift(last.detail)
    today = clock.now().astimezone(UTC).date()
    days = [today - timedelta(days=back) for back in reversed(range(DAYS))]
    # In the far east it is tomorrow already; that day's charges are shown when it has come here.
    charged = reading.charged_by_day(start=days[0], end=today + timedelta(days=1))
    return Panel(
        title="Money",
        description=f"Charges of the last {DAYS} days, each on its tenant's date.",
        figures=[
            Figure(label="Gate", value=(gate := _gate()), is_bad=gate != "open", link=accounts),
            Figure(
                label="Owed to tenants",
                value=f"${format_plain_usd(sum(each.total_micros for each in sums))}",
                link=accounts,
            ),
            Figure(
                label="Drift",
                value=drift,
                note=_age(last),
                link=f"{reverse('admin:jobs_jobreport_changelist')}?job__exact=money_verify",
                is_bad=drift not in {NO_DRIFT, NEVER},
            ),
            Figure(
                label="Pending credits",
                value=str(pending),
                link=reverse("admin:budget_pendingcredit_changelist"),
            ),
        ],
        plot=Plot(
            labels=[f"{day:%d %b}" for day in days],
            series={"charged, USD": [format_plain_usd(charged.get(day, 0)) for day in days]},
            unit="USD",
        ),
        link=accounts,
        link_text="All accounts",
    )


@dashboard_panel(title="Spend by tenant", order=21, permission="budget.view_account")
def spend_by_tenant_panel() -> Panel:
    today = clock.now().astimezone(UTC).date()
    days = [today - timedelta(days=back) for back in range(WEEK)]
    found = reading.charged_most(start=days[-1], end=today + timedelta(days=1), most=TENANTS_SHOWN)
    return Panel(
        title="Spend by tenant",
        description=f"The {TENANTS_SHOWN} that were charged most in {WEEK} days, in USD, on their own dates.",
        headers=["Tenant", *(f"{day:%d %b}" for day in days)],
        rows=[
            [_account_link(tenant_id), *(format_plain_usd(by_day[day]) if by_day.get(day) else "" for day in days)]
            for tenant_id, by_day in found.items()
        ],
        empty="No run has been charged this week.",
        link=reverse("admin:budget_account_changelist"),
        link_text="All accounts",
        wide=True,
    )


@dashboard_panel(title="Revenue by pack", order=22, permission="budget.view_account")
def revenue_by_pack_panel() -> Panel:
    today = clock.now().astimezone(UTC).date()
    found = reading.net_by_pack(start=today - timedelta(days=DAYS), end=today + timedelta(days=1))
    return Panel(
        title="Revenue by pack",
        description=f"The last {DAYS} days in USD, net of what went back, up to the last daily sums.",
        headers=["Pack", "Net", "Runs charged"],
        rows=[[pack or "unknown", f"${format_plain_usd(micros)}", f"{runs:,}"] for pack, micros, runs in found],
        empty="No daily sum yet: balance_snapshots makes the first one tonight.",
    )


def _account_link(tenant_id: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', reverse("admin:budget_account_change", args=[tenant_id]), tenant_id)


def _drift(detail: Mapping[str, Any]) -> str:
    micros, unproved = detail.get("drift_usd_micros"), detail.get("unproved")
    said = "unknown" if micros is None else f"{'-' if micros < 0 else ''}${format_plain_usd(abs(micros))}"
    return f"{said}, and {unproved} tenants unproved" if unproved else said


def _age(last: JobReport | None) -> str:
    if last is None:
        return ""
    return f"verified {durations.duration_ago(clock.now() - last.started_at)}"


def _gate() -> str:
    try:
        scripts.shared_scripts().gate.renewed()
    except GateClosed as closed:
        if closed.ledger_is_behind:
            lost = MissingCommits.of(evidence.lost_commits(scripts.shared_scripts().client))
            return f"closed: Postgres went back in time, it lacks at least {lost}; see docs/operations.md"
        return "closed: being rebuilt"
    except RedisError:
        return "unknown: Redis is away"
    return "open"
