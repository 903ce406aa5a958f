"""What this host holds workspaces with: its driver, by the environment, and the threads that work on them."""

import threading
from collections.abc import Callable
from pathlib import Path

from django.db import connections

from dpp_project.process_env import ENV
from dpp_project.processes.per_process import PerProcess
from ops.workspaces.drivers.base import Driver, DriverUnavailable


@PerProcess
def hosted_driver() -> Driver:
    """This process's. Raises DriverUnavailable where no workspaces are sold here."""
    if ENV.DPP_WORKSPACES_DRIVER == "process":
        from ops.workspaces.drivers.process.driver import ProcessDriver

        return ProcessDriver(Path(ENV.DPP_WORKSPACES_DIR).absolute())
    if ENV.DPP_WORKSPACES_DRIVER == "docker":
        from ops.workspaces.drivers.docker.driver import DockerDriver  # with the SDK, which no other process needs

        return DockerDriver(
            Path(ENV.DPP_WORKSPACES_DIR).absolute(),
            installation=ENV.DPP_WORKSPACES_DRIVER_ID,
            images=ENV.DPP_WORKSPACES_IMAGES,
        )
    raise DriverUnavailable(f"DPP_WORKSPACES_DRIVER is {ENV.DPP_WORKSPACES_DRIVER}")


def in_a_thread(action: Callable[[], None]) -> None:
    """How many there are at once is the caller's to say. Each gives its connection back."""

    def acted() -> None:
        try:
            action()
        finally:
            connections.close_all()

    threading.Thread(target=acted, name="workspaces-work", daemon=True).start()
