"""Papers of the cycle go after 30 days; tickets and turns of the emergency stop are kept for good."""

from datetime import datetime

from django.db.models import QuerySet

from dpp_project import retention
from dpp_project.constants import RETENTION_DAYS
from dpp_project.jobs.registry import PassReport
from dpp_project.retention import Period
from ops.tickets.models import OpsRunReceipt, ReaperReport

PERIODS = (
    Period(kind="ops_run_receipts", days=RETENTION_DAYS, why="One a minute; a month to look back is enough."),
    Period(
        kind="ticket_reaper_reports",
        days=RETENTION_DAYS,
        why="As long as the bucket keeps the snapshots; what was cleaned stands in the tickets' results for good.",
    ),
)


def run_once(*, now: datetime, limit: int) -> PassReport:
    seen = 0
    for old in _old(now=now, limit=limit):
        deleted, _ = old.delete()
        seen += deleted
    return PassReport(seen=seen, changed=seen)


def preview(*, now: datetime, limit: int) -> PassReport:
    seen = sum(old.count() for old in _old(now=now, limit=limit))
    return PassReport(seen=seen, changed=seen)


def _old(*, now: datetime, limit: int) -> tuple[QuerySet[OpsRunReceipt], QuerySet[ReaperReport]]:
    receipts = OpsRunReceipt.objects.filter(asof__lt=retention.cutoff("ops_run_receipts", now=now))
    published = ReaperReport.objects.filter(
        asof__lt=retention.cutoff("ticket_reaper_reports", now=now), published_at__isnull=False
    )
    return (
        OpsRunReceipt.objects.filter(pk__in=receipts.order_by("asof").values("pk")[:limit]),
        ReaperReport.objects.filter(pk__in=published.order_by("asof").values("pk")[:limit]),
    )
