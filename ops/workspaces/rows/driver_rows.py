"""The rows of drivers: which there are, their sentinels, and whether one is frozen."""

import uuid

import structlog
from django.db.models.functions import Now

from ops.workspaces.drivers.base import Driver
from ops.workspaces.models import WorkspaceDriver

log = structlog.get_logger("dpp.workspaces")


def register_driver(driver_id: str, driver: Driver) -> WorkspaceDriver:
    """The row before the sentinel: a token that lies at a driver has a row that knows it.

    Raises DriverRefused where another token lies: this driver is another installation's, or our row is of another one.
    """
    row, _ = WorkspaceDriver.objects.get_or_create(driver_id=driver_id, defaults={"kind": driver.kind})
    if row.sentinel_placed_at is None:
        driver.place_sentinel(str(row.sentinel))
        WorkspaceDriver.objects.filter(pk=driver_id).update(sentinel_placed_at=Now())
    return row


def freeze_driver(driver_id: str, *, reason: str) -> bool:
    """Looked at from now on, and nothing else, until an operator releases it."""
    won = WorkspaceDriver.objects.filter(pk=driver_id, frozen_at__isnull=True).update(
        frozen_at=Now(), frozen_reason=reason
    )
    if won:
        log.critical("a driver was frozen", driver=driver_id, reason=reason)
    return won > 0


def tell_address(driver_id: str, address: str) -> None:
    """Where its process listens; of two at once, the one that told it last, which was alive then."""
    WorkspaceDriver.objects.filter(pk=driver_id).exclude(address=address).update(address=address)


def mark_driver_listed(driver_id: str, sentinel: uuid.UUID) -> None:
    WorkspaceDriver.objects.filter(pk=driver_id, sentinel=sentinel).update(listed_at=Now())
