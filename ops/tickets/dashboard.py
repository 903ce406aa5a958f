"""Operations on the console's first page: does the ticket cycle run, and what waits for a person."""

from django.urls import reverse

from dpp_project.console.dashboard import Figure, Panel, dashboard_panel
from ops.tickets import emergency, selectors
from ops.tickets.models import OpsRunReceipt, Ticket
from ops.tickets.states import TicketStatus


@dashboard_panel(title="Operations", order=80, permission="tickets.view_ticket")
def operations_panel() -> Panel:
    stop, receipt = emergency.emergency_state(), OpsRunReceipt.objects.first()
    tickets = reverse("admin:tickets_ticket_changelist")
    return Panel(
        title="Operations",
        description="No ops cycle has run yet." if receipt is None else f"The latest ops cycle: {receipt}.",
        figures=[
            Figure(
                label="Ticket cycle",
                value="stopped" if emergency.is_on() else "running",
                note="" if stop is None else f"{stop.actor}: {stop.reason}",
                link=reverse("admin:tickets_emergencyswitch_changelist"),
            ),
            Figure(
                label="Waiting for approval",
                value=str(selectors.waiting_for_approval().count()),
                note="An operator approves what another one asked for.",
                link=f"{tickets}?status__exact=OPEN&needs_approval__exact=1",
            ),
            Figure(
                label="Open tickets",
                value=str(Ticket.objects.filter(status=TicketStatus.OPEN).count()),
                note="The cycle takes them within a minute.",
                link=f"{tickets}?status__exact=OPEN",
            ),
            Figure(
                label="Stale",
                value=str(selectors.stale_by_setting().count()),
                note="The next cycle ends them.",
                link=f"{tickets}?status__exact=IN_PROGRESS",
            ),
        ],
    )
