"""The container of a workspace that a request is for, at this host."""

import uuid

from ops.workspaces import naming
from ops.workspaces.drivers.base import Driver, DriverRefused, SeenContainer


def container_of(driver: Driver, workspace_id: uuid.UUID, *, running: bool = True) -> SeenContainer:
    """Raises DriverRefused where it does not run, or is another's of this name."""
    seen = driver.look_container(naming.container_name(workspace_id))
    if (
        seen is None
        or seen.placeholder
        or seen.label is None
        or seen.label.workspace_id != str(workspace_id)
        or (running and not seen.running)
    ):
        raise DriverRefused("The workspace does not run.", reason="NotRunning")
    return seen
