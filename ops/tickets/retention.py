"""Papers of the cycle go after 30 days; tickets and turns of the emergency stop are kept for good."""

from dpp_project.aws import prefixes
from dpp_project.constants import RETENTION_DAYS
from dpp_project.retention import DAILY, Clearing, DataKind
from ops.tickets.models import OpsRunReceipt, ReaperReport

KINDS = (
    DataKind(
        name="tickets",
        tables=("tickets", "ticket_results", "emergency_switches"),
        states="OPEN, IN_PROGRESS, DONE, FAILED; the stop: on, off",
        made_by="operators",
        read_by="the ops cycle, operators",
        until="for good",
        why="What was asked for and done, by whom.",
        deleted_by="no part of the platform",
    ),
    DataKind(
        name="ops_run_receipts",
        tables=("ops_run_receipts",),
        states="written",
        made_by="each turn of the ops cycle",
        read_by="operators",
        days=RETENTION_DAYS,
        until="after its turn",
        why="One a minute; a month to look back is enough.",
        deleted_by=DAILY,
        clearing=Clearing(rows=lambda cutoff: OpsRunReceipt.objects.filter(asof__lt=cutoff), order=("asof", "id")),
    ),
    DataKind(
        name="ticket_report_snapshots",
        results=(prefixes.REPORT_SNAPSHOTS,),
        states="published",
        made_by="the ticket reaper",
        read_by="operators",
        days=RETENTION_DAYS,
        until="after its pass",
        why="As long as the rows they were made from.",
        deleted_by="the bucket's own rule",
    ),
    DataKind(
        name="ticket_reaper_reports",
        tables=("ticket_reaper_reports",),
        states="written, published",
        made_by="the ticket reaper",
        read_by="operators",
        days=RETENTION_DAYS,
        until="after its pass",
        why="As long as the bucket keeps the snapshots; what was cleaned stands in the tickets' results for good.",
        deleted_by=DAILY,
        clearing=Clearing(
            rows=lambda cutoff: ReaperReport.objects.filter(asof__lt=cutoff, published_at__isnull=False),
            order=("asof", "id"),
        ),
    ),
    DataKind(
        name="latest_ticket_report",
        results=(prefixes.REPORT_LATEST,),
        states="written over",
        made_by="the ticket reaper",
        read_by="people and tools that want the newest",
        until="for good: one object",
        why="It lies at one name.",
        deleted_by="the next report, which takes its place",
    ),
)
