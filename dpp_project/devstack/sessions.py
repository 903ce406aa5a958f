"""`with-services`: a command with real services around it, for tests and measurements."""

import os
import time
from collections.abc import Sequence

from dpp_project import env_file
from dpp_project.devstack import environment
from dpp_project.devstack.folder import Folder
from dpp_project.devstack.programs import DevstackError
from dpp_project.devstack.supervisor import Supervisor, end_leftovers

START_SECONDS = 60.0
HOPELESS_FAILURES = 7  # after some 11 s; a Postgres that was killed may refuse to start for a few


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
        services, values = environment.devstack_services(folder, os.environ, durable=False)
        services.create_missing()
        env_file.write_env_file(folder.env, values)
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
        for name, unit in supervisor.units.items():
            if unit.failures >= HOPELESS_FAILURES and not unit.is_up():
                raise DevstackError(f"{name} ends as often as it is started:\n{supervisor.folder.end_of_log(name)}")
        if time.monotonic() > end:
            late = [name for name, unit in supervisor.units.items() if not unit.is_up()]
            ends = "\n".join(f"==> {name} <==\n{supervisor.folder.end_of_log(name, 5)}" for name in late)
            raise DevstackError(f"not ready after {START_SECONDS:.0f} s: {', '.join(late)}\n{ends}")
