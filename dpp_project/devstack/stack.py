# ruff: noqa: T201  its output is the progress that a person sees
"""The whole platform under one supervisor: the process that `up` starts and `down` stops."""

import os
import sys
import time
from collections.abc import Mapping

from dpp_project import env_file
from dpp_project.devstack import apps, environment, prepare
from dpp_project.devstack.folder import Folder
from dpp_project.devstack.programs import DevstackError
from dpp_project.devstack.sessions import await_ready
from dpp_project.devstack.supervisor import Supervisor, end_leftovers
from dpp_project.env_file import write_whole

STOP_FIRST = ("api", "beat", "workspaces", "events", "worker")


class Progress:
    """Lines with the seconds since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)


def supervise_stack(folder: Folder) -> int:
    """Services, then preparation where something changed, then the platform; until told to stop.

    The next start repairs what a kill at any point leaves: data are only added to, the preparation is repeated when its
    mark is missing, and the mark is removed before the preparation changes anything.
    """
    folder.make()
    lock = folder.lock_within("supervisor", seconds=1)
    if lock is None:
        raise DevstackError(f"{folder.root} has a supervisor already.")
    with lock:
        write_whole(folder.supervisor_pid, f"{os.getpid()}\n", mode=0o644)
        progress = Progress()
        left = end_leftovers(folder)
        if left:
            progress.say(f"ended what an earlier supervisor had left: {len(left)} processes")
        services, values = environment.devstack_services(folder, os.environ, names=("api",))
        if services.is_incomplete():
            (folder.root / "prepared").unlink(missing_ok=True)
            services.create_missing()
            progress.say("made the database cluster")
        env_file.write_env_file(folder.env, values)
        supervisor = Supervisor(folder, environment.for_programs(os.environ, values))
        try:
            return _run(supervisor, services, values, progress)
        finally:
            supervisor.stop([name for name in STOP_FIRST if name in supervisor.units])
            supervisor.stop([name for name in reversed(supervisor.units) if name not in STOP_FIRST])
            supervisor.close()
            folder.supervisor_pid.unlink(missing_ok=True)


def _run(supervisor: Supervisor, services: environment.Services, values: Mapping[str, str], progress: Progress) -> int:
    folder = supervisor.folder
    supervisor.add(services.programs())
    own = tuple(supervisor.units)
    await_ready(supervisor)
    progress.say(f"{', '.join(own) or 'no service of our own'} ready")
    if prepare.is_due(folder, values):
        _prepare(supervisor)
        progress.say("prepared")
    platform = apps.app_programs(supervisor.environ, needs=own, metrics_folder=folder.root / "metrics")
    supervisor.add(platform)
    await_ready(supervisor)
    progress.say(f"{', '.join(program.name for program in platform)} ready")
    while not supervisor.stop_requests:
        supervisor.tick(0.2)
    progress.say("stopping")
    return 0


def _prepare(supervisor: Supervisor) -> None:
    command = [sys.executable, "-m", "dpp_project.devstack.prepare", str(supervisor.folder.root)]
    with supervisor.folder.log("supervisor").open("ab") as output:
        code = supervisor.run(command, {**supervisor.environ, "DPP_LOG_LEVEL": "WARNING"}, output)
    if code != 0:
        raise DevstackError("the platform could not be prepared; the lines above say why.")
