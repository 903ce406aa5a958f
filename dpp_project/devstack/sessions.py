"""`with-services`: a command with real services around it, for tests and measurements."""

import os
import time
from collections.abc import Sequence

from dpp_project.devstack import environment
from dpp_project.devstack.folder import Folder
from dpp_project.devstack.programs import DevstackError
from dpp_project.devstack.supervisor import Supervisor, end_leftovers

START_SECONDS = 60.0


def with_services(folder: Folder, command: Sequence[str]) -> int:
    """Start Postgres, Valkey, SQS and S3, run the command in their environment, end them; the command's exit code.

    Their data stay in the folder and are fast rather than safe: fsync is off.
    """
    folder.make()
    lock = folder.lock_within("supervisor", seconds=1)
    if lock is None:
        raise DevstackError(f"{folder.root} is in use by another devstack; give this one its own with --state.")
    with lock:
        end_leftovers(folder)
        services, values = environment.services(folder, os.environ, durable=False)
        services.create_missing()
        environment.write(folder.env, values)
        supervisor = Supervisor(folder, os.environ)
        try:
            supervisor.add(services.programs())
            await_ready(supervisor)
            return supervisor.run(command, environment.for_programs(os.environ, values))
        finally:
            supervisor.stop(list(supervisor.units))
            supervisor.close()


def await_ready(supervisor: Supervisor) -> None:
    """Tick until every unit is ready."""
    end = time.monotonic() + START_SECONDS
    while not supervisor.all_ready():
        supervisor.tick()
        if supervisor.stop_requests:
            raise DevstackError("stopped while starting")
        if time.monotonic() > end:
            late = [name for name, unit in supervisor.units.items() if not unit.is_up()]
            logs = supervisor.folder.logs
            raise DevstackError(f"not ready after {START_SECONDS:.0f} s: {', '.join(late)}. See {logs}.")
