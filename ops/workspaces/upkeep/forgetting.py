"""Deletes the timelines of workspaces that were purged 30 days ago.

It goes through them by their ids, so that those which have none left are passed by. Each batch is a statement of its
own: a death in between leaves the rest to the next pass. Ages go by the earlier of the database's clock and this
process's.
"""

import uuid
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from django.db import connection

from dpp_project import retention
from dpp_project.jobs.registry import PassReport
from dpp_project.lifecycle import cleaning
from ops.workspaces.models import Workspace, WorkspaceEvent
from ops.workspaces.retention import TIMELINES
from reaper.tally import Tally

WORKSPACES_AT_ONCE: Final = 500
LINES_AT_ONCE: Final = 1_000
_DELETE: Final = """
DELETE FROM workspace_events WHERE id IN (SELECT id FROM workspace_events WHERE workspace_id = ANY(%s) LIMIT %s)
"""


def forget_timelines(*, now: datetime, limit: int) -> PassReport:
    tally = Tally("workspace_retention", limit=limit)
    for batch in _purged(now):
        if not tally.goes_on():
            break
        with tally.each(batch[0], seen=0):
            _forget_workspace_timelines(tally, batch)
    return tally.report()


def preview_forgetting_timelines(*, now: datetime, limit: int) -> PassReport:
    count = sum(WorkspaceEvent.objects.filter(workspace_id__in=batch).count() for batch in _purged(now))
    return PassReport(seen=min(limit, count), changed=min(limit, count))


def _forget_workspace_timelines(tally: Tally, batch: list[uuid.UUID]) -> None:
    while tally.goes_on():
        with connection.cursor() as cursor:
            cursor.execute(_DELETE, [batch, tally.room(LINES_AT_ONCE)])
            count = cursor.rowcount
        if count == 0:
            return
        tally.seen += count
        tally.changed += count


def _purged(now: datetime) -> Iterator[list[uuid.UUID]]:
    cutoff = retention.retention_cutoff(TIMELINES, now=cleaning.cleanup_moment(now))
    last = uuid.UUID(int=0)
    rows = Workspace.objects.filter(purged_at__lt=cutoff).order_by("workspace_id").values_list("pk", flat=True)
    while batch := list(rows.filter(workspace_id__gt=last)[:WORKSPACES_AT_ONCE]):
        yield batch
        last = batch[-1]
