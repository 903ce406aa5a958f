"""How much the homes at a driver hold, which is what a tenant's quota counts. Those at work are measured more often."""

from datetime import timedelta
from typing import Final

import structlog
from django.db.models import F, Q
from django.db.models.functions import Now

from ops.workspaces.drivers.base import TOO_MUCH_TO_MEASURE, Driver, DriverError
from ops.workspaces.models import WorkspaceVolume
from ops.workspaces.rows import volumes
from ops.workspaces.states import Phase, VolumeState

log = structlog.get_logger("dpp.workspaces")

AT_ONCE: Final = 50
"""A measure reads a whole tree of files."""
AT_WORK: Final = timedelta(minutes=5)
AT_REST: Final = timedelta(hours=1)


def measure_once(
    driver: Driver, *, driver_id: str, at_work: timedelta = AT_WORK, too_much: list[str] | None = None
) -> int:
    """Those measured. One that cannot be is tried again at the next pass, behind the others; `too_much` gets the names
    of those that hold so many files that it takes too long.
    """
    homes = WorkspaceVolume.objects.filter(driver_id=driver_id, state=VolumeState.LIVE)
    changes = Q(workspace__phase=Phase.RUNNING, measured_at__lte=Now() - at_work)
    due = homes.filter(Q(measured_at__isnull=True) | changes | Q(measured_at__lte=Now() - AT_REST))
    measured = 0
    for name in list(due.order_by(F("measured_at").asc(nulls_first=True)).values_list("pk", flat=True)[:AT_ONCE]):
        try:
            used_bytes = driver.usage_bytes(name)
        except DriverError as error:
            log.info("a home was not measured", volume=name, error=str(error))
            used_bytes = None
            if too_much is not None and error.reason == TOO_MUCH_TO_MEASURE:
                too_much.append(name)
        volumes.record_measured_volume(name, used_bytes)
        measured += used_bytes is not None
    return measured
