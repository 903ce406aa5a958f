"""`with-services`: a command with real services around it, for tests and measurements."""

import os
import time
from collections.abc import Sequence

from dpp_project.devstack import environment
from dpp_project.devstack.folder import Folder
from dpp_project.devstack.programs import DevstackError, spawn
from dpp_project.devstack.supervisor import Supervisor, end_leftovers

START_SECONDS = 60.0


class _Around(Supervisor):
    """A supervisor with a guest: the command."""

    guest: int | None = None

    def _guests(self) -> set[int]:
        return set() if self.guest is None else {self.guest}


def with_services(folder: Folder, command: Sequence[str]) -> int:
    """Start Postgres, Valkey, SQS and S3, run the command in their environment, end them; the command's exit code.

    Their data stay in the folder and are fast rather than safe: fsync is off.
    """
    folder.make()
    lock = folder.try_lock("supervisor")
    if lock is None:
        raise DevstackError(f"{folder.root} is in use by another devstack; give this one its own with --state.")
    with lock:
        end_leftovers(folder)
        services, values = environment.services(folder, os.environ, durable=False)
        services.create_missing()
        environment.write(folder.env, values)
        supervisor = _Around(folder, os.environ)
        try:
            supervisor.add(services.programs())
            _await_ready(supervisor)
            return _run(supervisor, command, {**os.environ, **_for_programs(values)})
        finally:
            supervisor.stop(list(supervisor.units))
            supervisor.close()


def _for_programs(values: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if not name.startswith("DEVSTACK_")}


def _await_ready(supervisor: Supervisor) -> None:
    end = time.monotonic() + START_SECONDS
    while not supervisor.all_ready():
        supervisor.tick()
        if supervisor.stop_requests:
            raise DevstackError("stopped while starting")
        if time.monotonic() > end:
            late = [name for name, unit in supervisor.units.items() if not unit.is_up()]
            raise DevstackError(
                f"not ready after {START_SECONDS:.0f} s: {', '.join(late)}; see {supervisor.folder.logs}"
            )


def _run(supervisor: _Around, command: Sequence[str], environ: dict[str, str]) -> int:
    process = spawn(command, environ=environ, session=False)
    supervisor.guest = process.pid
    passed_on = supervisor.stop_requests
    while process.poll() is None:
        supervisor.tick(0.1)
        if supervisor.stop_requests > passed_on:
            passed_on = supervisor.stop_requests
            process.terminate()
    code = process.returncode
    return code if code >= 0 else 128 - code
