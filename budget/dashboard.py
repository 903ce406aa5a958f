"""Money on the console's first page."""

from datetime import UTC, timedelta

from django.urls import reverse
from redis import RedisError

from budget import ledger
from budget.models import PendingCredit
from budget.money import format_exact_usd
from budget.rebuild import evidence
from budget.rebuild.evidence import MissingCommits
from budget.redis import scripts
from budget.redis.gate import GateClosed
from budget.usage import reading
from dpp_project import clock
from dpp_project.console.dashboard import Figure, Panel, Plot, panel
from dpp_project.jobs.models import JobReport

DAYS = 30


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
        description=f"Charges of the last {DAYS} days, each on its tenant's date, in micros.",
        figures=[
            Figure(label="Gate", value=_gate()),
            Figure(
                label="Owed to tenants", value=format_exact_usd(sum(each.total_micros for each in sums)), note="USD"
            ),
            Figure(label="Drift, in micros", value=drift, note=_age(last)),
            Figure(
                label="Pending credits",
                value=str(pending),
                link=reverse("admin:budget_pendingcredit_changelist"),
            ),
        ],
        plot=Plot(labels=[f"{day:%d %b}" for day in days], series={"charged": [charged.get(day, 0) for day in days]}),
        link=reverse("admin:budget_account_changelist"),
        link_text="All accounts",
    )


def _age(last: JobReport | None) -> str:
    if last is None:
        return ""
    return f"verified {timedelta(seconds=(clock.now() - last.started_at) // timedelta(seconds=1))} ago"


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
