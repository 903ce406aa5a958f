"""The loops of the process `workspaces`, as threads over a driver and the bucket of archives."""

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from django.db import connections

from ops.workspaces import hints, naming
from ops.workspaces.archive_store import configured
from ops.workspaces.drivers.base import Driver, ExecRequest
from ops.workspaces.host import hosting
from ops.workspaces.host.listening import Listener
from ops.workspaces.host.monitor import Monitor
from ops.workspaces.host.reconciler import Reconciler
from tests.gear.waiting import wait_until


@contextmanager
def loops(driver: Driver, *, driver_id: str, times: int = 2) -> Iterator[None]:
    """So many processes' loops at once, each pass at a hint or after 0.2 s."""
    stop = threading.Event()

    def watch() -> None:
        monitor, listener = Monitor(driver, configured.shared_archive_store(), driver_id=driver_id), Listener()
        while not stop.is_set():
            report = monitor.run_once()
            for workspace_id in (*report.changed, *report.caught_up):
                hints.give_hint(workspace_id)
            listener.wait(stop, seconds=0.2)
        listener.close()
        connections.close_all()

    def reconcile() -> None:
        reconciler = Reconciler(
            driver,
            configured.shared_archive_store(),
            driver_id=driver_id,
            start=hosting.in_a_thread,
            to_look_at=hints.give_hint,
        )
        listener = Listener()
        while not stop.is_set():
            reconciler.run_once()
            listener.wait(stop, seconds=0.2)
        wait_until(lambda: not reconciler.is_at_work, what="the reconciler's threads to end")
        listener.close()
        connections.close_all()

    with ThreadPoolExecutor(2 * times) as threads:
        running = [threads.submit(one) for _ in range(times) for one in (watch, reconcile)]
        try:
            yield
        finally:
            stop.set()
            for one in running:
                one.result(30)


def shell(driver: Driver, workspace_id: uuid.UUID, script: str) -> str:
    container = driver.look_container(naming.container_name(workspace_id))
    assert container is not None
    running = driver.exec_start(container.container_id, ExecRequest(uuid.uuid4().hex, ("/bin/sh", "-ec", script), 20))
    result = running.wait(20)
    running.close()
    assert result is not None
    assert (result.exit_code, result.stderr) == (0, b"")
    return result.stdout.decode()
