"""No tenant fills the disk of all: one whose homes hold more than they may has what runs in them put to rest.

A home has no bound of its own at most hosts, so it is measured. Every few minutes; and at once, again and again, where
the host's disk has little left; what cannot be measured in time is then put to rest, too. Who is put to rest may wake
it to delete files, and has until the next measure.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import structlog

from ops.workspaces import quotas, services
from ops.workspaces.drivers.base import Driver
from ops.workspaces.host import measuring
from ops.workspaces.models import Workspace
from ops.workspaces.states import DesiredState

log = structlog.get_logger("dpp.workspaces")

AT_ONCE: Final = timedelta(seconds=5)


def keep_free(driver: Driver, *, driver_id: str, floor_bytes: int) -> int:
    """How many were put to rest. Looks no further where the disk has room. Raises DriverUnavailable."""
    free = driver.free_bytes()
    if free >= floor_bytes:
        return 0
    too_much: list[str] = []
    measured = measuring.measure_once(driver, driver_id=driver_id, at_work=AT_ONCE, too_much=too_much)
    running = Workspace.objects.filter(volumes__in=too_much, desired_state=DesiredState.RUNNING)
    rested = rest_overfull(driver_id) + sum(services.rest_overfull(one) for one in running)
    if measured or too_much:
        log.critical("little is free for workspaces", driver=driver_id, free_mb=free // quotas.MEGABYTE, rested=rested)
    return rested


def rest_overfull(driver_id: str) -> int:
    """By what was measured last."""
    running = Workspace.objects.filter(driver_id=driver_id, desired_state=DesiredState.RUNNING)
    full = set(_overfull(running.order_by().values_list("tenant_id", flat=True).distinct()))
    return sum(services.rest_overfull(one) for one in running.filter(tenant_id__in=full)) if full else 0


def _overfull(tenants: Iterable[str]) -> Iterable[str]:
    most = quotas.current_quotas().megabytes * quotas.MEGABYTE
    return (tenant_id for tenant_id in tenants if quotas.used_bytes(tenant_id) > most)
