"""Puts what nobody uses to rest: RUNNING to STANDBY, STANDBY to ARCHIVED, each by the workspace's own TTL.

One that is not yet where it was asked to be is left: it counts from then on. The services ask for the rest, and let it
be where a use, a change or a deletion came in between. One that cannot be put to rest is skipped and shown.
"""

from datetime import datetime, timedelta
from typing import Final

from django.db.models import DateTimeField, DurationField, ExpressionWrapper, F, QuerySet, Value
from django.db.models.functions import Now

from dpp_project.jobs.registry import PassReport
from ops.workspaces import services
from ops.workspaces.models import Workspace
from ops.workspaces.states import DesiredState, Operation
from reaper import driver
from reaper.tally import Tally

LOOP: Final = "workspace_ttl"
RESTS: Final = {
    DesiredState.RUNNING: (DesiredState.STANDBY, "standby_ttl_seconds"),
    DesiredState.STANDBY: (DesiredState.ARCHIVED, "archive_ttl_seconds"),
}


def rest_idle_workspaces(*, now: datetime, limit: int) -> PassReport:
    """Ages go by the database's clock."""
    del now
    tally = Tally(LOOP, limit=limit)
    dues = (_idle(state, ttl).order_by("pk") for state, (_, ttl) in RESTS.items())
    for workspace in driver.rows_left_behind(tally, *dues):
        with tally.each(workspace.pk):
            lower, ttl = RESTS[DesiredState(workspace.desired_state)]
            unused_for = timedelta(seconds=getattr(workspace, ttl))
            tally.changed += services.rest_workspace(workspace, to=lower, unused_for=unused_for)
    return tally.report()


def preview_resting_workspaces(*, now: datetime, limit: int) -> PassReport:
    del now
    count = min(limit, sum(_idle(state, ttl)[:limit].count() for state, (_, ttl) in RESTS.items()))
    return PassReport(seen=count, changed=count)


def _idle(state: DesiredState, ttl: str) -> QuerySet[Workspace]:
    unused_for = ExpressionWrapper(F(ttl) * Value(timedelta(seconds=1)), output_field=DurationField())
    line = ExpressionWrapper(Now() - unused_for, output_field=DateTimeField())
    rows = Workspace.objects.filter(desired_state=state, phase=state.value, operation=Operation.NONE)
    return rows.filter(delete_requested_at__isnull=True, access__last_access_at__lt=line, **{f"{ttl}__isnull": False})
