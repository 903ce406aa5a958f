"""Money on the console's first page."""

from datetime import UTC, timedelta

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
from dpp_project.console.dashboard import Figure, Panel, Plot, panel
from dpp_project.jobs.models import JobReport

DAYS = 30
WEEK = 7
TENANTS_SHOWN = 8


@panel(title="Money", order=20, permission="budget.view_account")
def money_panel() -> Panel:
    sums = ledger.sums().values()
    pending = PendingCredit.objects.count()
    proof = JobReport.objects.filter(job="money_verify", ended_at__isnull=False, dry_run=False)
    last = proof.order_by("-started_at").first()
    drift = "never verified" if last is None else str(last.detail.get("drift_usd_micros", "unknown"))
    if last is not None and (unproved := last.detail.get("unproved")):
        drift += f", and {unproved} tenants unproved"
    today = clock.now().astimezone(UTC).date()
    days = [today - timedelta(days=back) for back in reversed(range(DAYS))]
    # In the far east it is tomorrow already; that day's charges are shown when it has come here.
    charged = reading.charged_by_day(start=days[0], end=today + timedelta(days=1))
    return Panel(
        title="Money",
        description=f"Charges of the last {DAYS} days, each on its tenant's date.",
        figures=[
            Figure(label="Gate", value=(gate := _gate()), is_bad=gate != "open"),
            Figure(label="Owed to tenants", value=f"${format_plain_usd(sum(each.total_micros for each in sums))}"),
            Figure(label="Drift, in micros", value=drift, note=_age(last), is_bad=drift not in {"0", "never verified"}),
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
        link=reverse("admin:budget_account_changelist"),
        link_text="All accounts",
    )


@panel(title="Spend by tenant", order=21, permission="budget.view_account")
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


@panel(title="Revenue by pack", order=22, permission="budget.view_account")
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


def _age(last: JobReport | None) -> str:
    if last is None:
        return ""
    return f"verified {durations.ago(clock.now() - last.started_at)}"


def _gate() -> str:
    try:
        scripts.shared().gate.renewed()
    except GateClosed as closed:
        if closed.ledger_is_behind:
            lost = MissingCommits.of(evidence.lost_commits(scripts.shared().client))
            return f"closed: Postgres went back in time, it lacks at least {lost}; see docs/operations.md"
        return "closed: being rebuilt"
    except RedisError:
        return "unknown: Redis is away"
    return "open"
