"""What waits for recovery, on the console's first page. Each number is small, or the loop beside it does not run."""

from typing import Final

from django.db.models import Model, QuerySet
from django.urls import reverse

from dpp_project.console.dashboard import Figure, Panel, dashboard_panel
from dpp_project.jobs.models import JobReport
from dpp_project.outbox.models import EventDeadLetter
from reaper.models import DeadLetter
from runs.reads import for_recovery

COUNTED_MAX: Final = 1_000
CLAIMED: Final = "finalize_stage__exact=CLAIMED"


@dashboard_panel(title="Recovery", order=70, permission="reaper.view_deadletter", is_live=True)
def recovery_panel() -> Panel:
    letters = DeadLetter.objects.filter(redriven_at__isnull=True)
    queued = "status__exact=QUEUED"
    waiting = (
        (
            "Expired leases",
            for_recovery.lease_expired(),
            "The reaper ends them within 30 s.",
            "status__exact=PROCESSING",
        ),
        ("Queued for over an hour", for_recovery.never_started(), "The sweeper returns their holds.", queued),
        ("Unfinished claims", for_recovery.claimed_too_long(), "The reconciler carries them out.", CLAIMED),
        ("Messages due again", for_recovery.send_due(), "Sent again, unless the queue is merely full.", queued),
        (
            "Abandoned submits",
            for_recovery.abandoned_runs(),
            "The auditor ends them.",
            f"{queued}&money_state__exact=NONE",
        ),
    )
    runs = reverse("admin:runs_run_changelist")
    return Panel(
        title="Recovery",
        description="Counted just now; each loop processes its rows at its next pass.",
        figures=[
            *(
                Figure(label=label, value=_reaper_dashboard_count(rows), note=note, link=f"{runs}?{among}")
                for label, rows, note, among in waiting
            ),
            Figure(
                label="Wrong money not mended",
                value=_not_mended(),
                note="By the auditor's last pass.",
                link=f"{reverse('admin:jobs_jobreport_changelist')}?job__exact=hold_auditor",
            ),
            Figure(
                label="Dead letters not sent again",
                value=_reaper_dashboard_count(letters),
                note="Stored for 30 days.",
                link=reverse("admin:reaper_deadletter_changelist"),
            ),
            Figure(
                label="Dead letters of events not sent again",
                value=_reaper_dashboard_count(EventDeadLetter.objects.filter(redriven_at__isnull=True)),
                note="On the same page.",
                link=reverse("admin:reaper_deadletter_changelist"),
            ),
        ],
    )


def _not_mended() -> str:
    """What the auditor found wrong and could not make right, by its reason."""
    report = JobReport.objects.filter(job="hold_auditor", ended_at__isnull=False, dry_run=False)
    last = report.order_by("-started_at").first()
    noted = {} if last is None else last.detail
    found = [f"{count} ({name.removeprefix('not mended: ')})" for name, count in noted.items() if "not mended" in name]
    return ", ".join(found) or "0"


def _reaper_dashboard_count(rows: QuerySet[Model]) -> str:
    """Counting stops early: whether 1,000 or 100,000 wait, something is wrong."""
    count = rows.order_by()[: COUNTED_MAX + 1].count()
    return f"{COUNTED_MAX}+" if count > COUNTED_MAX else str(count)
