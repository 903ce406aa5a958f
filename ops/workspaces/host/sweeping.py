"""What is at the driver and is nobody's: deleted where our rows call it dead, told where no row knows it.

A verb that lands late may make a volume again that was deleted, or hold the name of a workspace that is gone. The list
is taken before the rows are read: a volume whose row is DOOMED or GONE never comes back to life, and a container that
was there before its workspace was undeleted is not the new one. A dead volume that no list shows is asked for as well:
its deletion may have ended half-way, or after its effect.

What cannot be deleted keeps nothing else from being, nor the measuring that comes after it.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from ops.workspaces import metrics, naming
from ops.workspaces.drivers.base import Driver, DriverError, Listing, VerbAnswer
from ops.workspaces.models import Workspace, WorkspaceDriver, WorkspaceVolume
from ops.workspaces.rows import volumes
from ops.workspaces.states import Operation, VolumeState

if TYPE_CHECKING:
    from uuid import UUID

log = structlog.get_logger("dpp.workspaces")


@dataclass(slots=True)
class SweepReport:
    deleted: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Ours by their labels, and in none of our rows: for a person, who may have restored an older database."""


def sweep_once(driver: Driver, *, driver_id: str) -> SweepReport:
    """Raises DriverUnavailable. Nothing on a driver that is frozen, or whose sentinel is not there."""
    report, listing = SweepReport(), driver.list()
    row = WorkspaceDriver.objects.get(pk=driver_id)
    if row.frozen_at is not None or listing.sentinel != str(row.sentinel):
        return report
    _sweep_volumes(driver, listing, report, driver_id=driver_id)
    _sweep_containers(driver, listing, report)
    with _sweep_errors_logged("leftovers"):
        driver.remove_leftovers()
    metrics.UNKNOWN_AT_DRIVER.labels(driver=driver_id).set(len(report.unknown))
    if report.unknown:
        log.error("the driver holds what no row knows", driver=driver_id, unknown=report.unknown[:20])
    return report


def _sweep_volumes(driver: Driver, listing: Listing, report: SweepReport, *, driver_id: str) -> None:
    ours = {one.name for one in listing.volumes if one.label is not None}
    doomed = WorkspaceVolume.objects.filter(driver_id=driver_id, state=VolumeState.DOOMED)
    known = {row.volume_name: row for row in WorkspaceVolume.objects.filter(pk__in=ours)}
    known |= {row.volume_name: row for row in doomed}
    report.unknown += sorted(ours - set(known))
    for name, row in sorted(known.items()):
        # Read anew: each deletion may take a while, and says to who watches this loop that it gets on.
        if row.state not in volumes.DEAD or _is_needed(name):
            continue
        with _sweep_errors_logged(name):
            if driver.delete_volume(name, starts=row.starts) is not VerbAnswer.IN_USE:
                volumes.mark_volume_gone(name)
                report.deleted += [name] if name in ours else []


@contextlib.contextmanager
def _sweep_errors_logged(what: str) -> Iterator[None]:
    try:
        yield
    except DriverError as error:
        log.warning("what is dead could not be deleted", what=what, error=str(error))


def _is_needed(name: str) -> bool:
    """A former home that was in use when it was to be deleted is archived again first; an operation does its own."""
    row = WorkspaceVolume.objects.select_related("workspace").get(pk=name)
    is_home = row.state == VolumeState.DOOMED and row.workspace.home_ctx.get("volume") == row.volume_name
    return is_home or row.workspace.operation != Operation.NONE


def _sweep_containers(driver: Driver, listing: Listing, report: SweepReport) -> None:
    """Those of workspaces that are deleted; of the others the reconciler takes care by what the monitor sees."""
    by_workspace: dict[UUID, list[str]] = defaultdict(list)
    for one in listing.containers:
        workspace_id = None if one.label is None else naming.read_container_name(one.name)
        if workspace_id is not None:
            by_workspace[workspace_id].append(one.container_id)
    known = dict(Workspace.objects.filter(pk__in=by_workspace).values_list("pk", "deleted_at"))
    at_work = set(Workspace.objects.filter(pk__in=by_workspace).exclude(operation="NONE").values_list("pk", flat=True))
    for workspace_id, container_ids in by_workspace.items():
        if workspace_id not in known:
            report.unknown.append(naming.container_name(workspace_id))
        elif known[workspace_id] is not None and workspace_id not in at_work:
            for container_id in container_ids:
                with _sweep_errors_logged(container_id):
                    driver.remove_container(container_id)
                    report.deleted.append(container_id)
