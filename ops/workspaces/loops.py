"""The loops of the process `workspaces`: look, act, sweep, serve, carry. Each may run twice at once, or be killed."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import structlog
from django.db import connections

from dpp_project.http.client_address import ClientAddresses
from dpp_project.outbox.descriptors import Loop
from dpp_project.process_env import ENV
from dpp_project.stores.postgres import DATABASE_AWAY, make_room
from ops.workspaces import hints, quotas, services
from ops.workspaces.archive_store import configured
from ops.workspaces.drivers.base import DriverUnavailable
from ops.workspaces.host import hosting, measuring, overfull, sweeping
from ops.workspaces.host.listening import Listener
from ops.workspaces.host.monitor import Monitor
from ops.workspaces.host.places import THREADS
from ops.workspaces.host.reconciler import Reconciler
from ops.workspaces.proxy import admission
from ops.workspaces.proxy.server import ProxyServer
from ops.workspaces.remote.server import WorkspaceServer
from ops.workspaces.rows import driver_rows

Told = TypeVar("Told")
log = structlog.get_logger("dpp.workspaces")

PASS_SECONDS: Final = 2.0
"""What has an operation is looked at and gone on with so often; what is due less often waits in its query."""

SWEEP_SECONDS: Final = 300.0
OTHERS: Final = 17
"""Connections of this process beside those of operations: its loops, its pulse, what comes over its ports, the watch of
keys."""


def watch_loop(stop: threading.Event) -> None:
    if ENV.DPP_WORKSPACES_DRIVER is None:
        stop.wait()
        return
    driver, driver_id = hosting.hosted_driver(), ENV.DPP_WORKSPACES_DRIVER_ID
    driver_rows.register_driver(driver_id, driver)
    monitor, listener = Monitor(driver, configured.shared_archive_store(), driver_id=driver_id), Listener()
    try:
        while not stop.is_set():
            report = monitor.run_once()
            for workspace_id in (*report.changed, *report.caught_up):
                hints.give_hint(workspace_id)
            listener.wait(stop, seconds=PASS_SECONDS)
    finally:
        listener.close()


def reconcile_loop(stop: threading.Event) -> None:
    """Operations under way at the end are left to their leases, and go on where they were."""
    if ENV.DPP_WORKSPACES_DRIVER is None:
        stop.wait()
        return
    driver, driver_id = hosting.hosted_driver(), ENV.DPP_WORKSPACES_DRIVER_ID
    driver_rows.register_driver(driver_id, driver)
    make_room(THREADS + OTHERS)
    listener = Listener()
    reconciler = Reconciler(
        driver,
        configured.shared_archive_store(),
        driver_id=driver_id,
        start=hosting.in_a_thread,
        to_look_at=hints.give_hint,
    )
    try:
        while not stop.is_set():
            if reconciler.run_once().adopted:
                hints.give_hint()  # nobody has looked at them yet
            listener.wait(stop, seconds=PASS_SECONDS)
    finally:
        listener.close()


def sweep_loop(stop: threading.Event) -> None:
    if ENV.DPP_WORKSPACES_DRIVER is None:
        stop.wait()
        return
    driver, driver_id = hosting.hosted_driver(), ENV.DPP_WORKSPACES_DRIVER_ID
    while not stop.wait(SWEEP_SECONDS):
        try:
            sweeping.sweep_once(driver, driver_id=driver_id)
            measuring.measure_once(driver, driver_id=driver_id)
            overfull.rest_overfull(driver_id)
        except DriverUnavailable as error:
            log.info("nothing was swept, the driver is away", error=str(error))


def keep_free(stop: threading.Event) -> None:
    if ENV.DPP_WORKSPACES_DRIVER is None:
        stop.wait()
        return
    driver, driver_id = hosting.hosted_driver(), ENV.DPP_WORKSPACES_DRIVER_ID
    floor_bytes = ENV.DPP_WORKSPACES_FREE_MB * quotas.MEGABYTE
    while not stop.wait(PASS_SECONDS):
        try:
            overfull.keep_free(driver, driver_id=driver_id, floor_bytes=floor_bytes)
        except DriverUnavailable as error:
            log.info("the disk was not looked at, the driver is away", error=str(error))


def serve_loop(stop: threading.Event) -> None:
    """Commands and logs, for API and workers."""
    if ENV.DPP_WORKSPACES_DRIVER is None:
        stop.wait()
        return
    driver, driver_id = hosting.hosted_driver(), ENV.DPP_WORKSPACES_DRIVER_ID
    driver_rows.register_driver(driver_id, driver)
    WorkspaceServer(
        driver,
        host=ENV.DPP_WORKSPACES_HOST,
        port=ENV.DPP_WORKSPACES_PORT,
        tell_address=partial(_in_passing, partial(driver_rows.tell_address, driver_id)),
        used=partial(_in_passing, services.touch_workspace),
    ).run(stop)


def proxy_loop(stop: threading.Event) -> None:
    """What workspaces serve, for their tenants."""
    if ENV.DPP_WORKSPACES_DRIVER is None or ENV.DPP_WORKSPACES_PROXY_PORT is None:
        stop.wait()
        return
    driver, driver_id = hosting.hosted_driver(), ENV.DPP_WORKSPACES_DRIVER_ID
    driver_rows.register_driver(driver_id, driver)
    ProxyServer(
        driver,
        host=ENV.DPP_WORKSPACES_PROXY_HOST,
        port=ENV.DPP_WORKSPACES_PROXY_PORT,
        admit=partial(admission.admit_request, driver_id=driver_id),
        used=partial(_in_passing, services.touch_workspace),
        addresses=ClientAddresses(ENV.DPP_TRUSTED_PROXIES),
        scheme=(ENV.DPP_WORKSPACES_URL or "http:").partition(":")[0],
    ).run(stop)


def _in_passing(write: Callable[[Told], None], told: Told) -> None:
    """In a thread that asks the database once. A word that is lost is said again, or found out."""
    try:
        write(told)
    except DATABASE_AWAY as error:
        log.info("not written down, Postgres is away", error=type(error).__name__)
    finally:
        connections.close_all()


LOOPS: Final = (
    Loop("workspaces-monitor", watch_loop),
    Loop("workspaces-reconciler", reconcile_loop),
    Loop("workspaces-sweeper", sweep_loop),
    Loop("workspaces-disk", keep_free),
    Loop("workspaces-server", serve_loop),
    Loop("workspaces-proxy", proxy_loop),
)
