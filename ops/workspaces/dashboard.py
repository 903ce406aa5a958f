"""Workspaces on the console's first page: how they stand, and which are in trouble."""

from typing import Final

from django.db.models import Count
from django.urls import reverse

from dpp_project.console.dashboard import Figure, Panel, dashboard_panel
from ops.workspaces import selectors, services
from ops.workspaces.models import WorkspaceDriver
from ops.workspaces.states import Operation, Phase

SHOWN_MAX: Final = 10


@dashboard_panel(title="Workspaces", order=70, permission="workspaces.view_workspace")
def workspaces_panel() -> Panel:
    rows = selectors.workspaces_of(None)
    here = reverse("admin:workspaces_workspace_changelist")
    counts = dict(rows.order_by().values_list("phase").annotate(number=Count("pk")))
    trouble = rows.filter(phase=Phase.ERROR).order_by("observed_at")
    frozen = WorkspaceDriver.objects.filter(frozen_at__isnull=False).count()
    shown = (Phase.RUNNING, Phase.STANDBY, Phase.ARCHIVED, Phase.ERROR)
    return Panel(
        title="Workspaces",
        figures=[
            *(
                Figure(label=phase.capitalize(), value=str(counts.get(phase, 0)), link=f"{here}?phase__exact={phase}")
                for phase in shown
            ),
            Figure(
                label="At work",
                value=str(rows.exclude(operation=Operation.NONE).count()),
                note="Operations under way.",
                link=reverse("admin:workspaces_workspace_board"),
            ),
            Figure(
                label="Frozen drivers",
                value=str(frozen),
                note="Wait for an operator.",
                link=reverse("admin:workspaces_workspacedriver_changelist"),
            ),
        ],
        headers=["In trouble", "tenant", "reason", "since"],
        rows=[
            [one.name, one.tenant_id, services.error_reason(one), one.observed_at or ""] for one in trouble[:SHOWN_MAX]
        ],
        link=reverse("admin:workspaces_workspace_board"),
        link_text="Board",
    )
