"""What a person may do to workspaces, each once refused and once done, by the way it is asked for (see acts.py)."""

from typing import Final

from dpp_project import clock
from ops.workspaces import offer, services
from ops.workspaces.models import Workspace
from ops.workspaces.offer import Offer
from ops.workspaces.states import DesiredState, Phase
from tests.gear.builders.acts import Act, Case, Scene
from tests.gear.builders.workspace_rows import a_driver, a_workspace, seen

CASES: dict[str, Case] = {}
RUNNING: Final = "RUNNING"
RESTING: Final = "RESTING"
DELETED: Final = "DELETED"
IN_ERROR: Final = "IN_ERROR"


def workspace_of(it: Scene, state: str) -> Workspace:
    it.monkeypatch.setattr(offer, "current_workspace_offer", lambda: Offer("process"))
    asked = DesiredState.STANDBY if state == RESTING else DesiredState.RUNNING
    workspace = a_workspace(it.shop.tenant, desired_state=asked)
    if state == DELETED:
        services.delete_workspace(workspace_id=workspace.pk, actor="owner:dpp_test")
    if state == IN_ERROR:
        seen(workspace, Phase.ERROR)
    return workspace


def _of_workspace(do: str, *, refused: str, done: str, page: str = "", more: tuple[str, ...] = ()) -> None:
    """By console and by command, in the states in which it is refused and in which it is done."""
    page = page or do

    def by_console(it: Scene) -> tuple[Act, Act]:
        pages = [f"workspaces/workspace/{workspace_of(it, state).pk}/{page}/" for state in (refused, done)]
        return lambda: it.post(pages[0], source="recheck"), lambda: it.post(pages[1], source="recheck")

    def by_command(it: Scene) -> tuple[Act, Act]:
        ids = [str(workspace_of(it, state).pk) for state in (refused, done)]
        return lambda: it.command("workspace", do, ids[0], *more), lambda: it.command("workspace", do, ids[1], *more)

    CASES.update({f"console workspaces.workspace {page}": by_console, f"command workspace {do}": by_command})


_of_workspace("start", refused=DELETED, done=RESTING)
_of_workspace("standby", refused=DELETED, done=RUNNING)
_of_workspace("archive", refused=DELETED, done=RUNNING)
_of_workspace("delete", refused=IN_ERROR, done=RUNNING, page="ask_deletion")
_of_workspace("undelete", refused=RUNNING, done=DELETED)
_of_workspace("recover", refused=RUNNING, done=IN_ERROR, more=("--from", "recheck"))


def _two_drivers() -> tuple[str, str]:
    """One at work, and one that was frozen."""
    a_driver("working")
    a_driver("frozen", frozen_at=clock.now(), frozen_reason="VolumesVanished")
    return "working", "frozen"


def _release_by_console(it: Scene) -> tuple[Act, Act]:
    pages = [f"workspaces/workspacedriver/{name}/release/" for name in _two_drivers()]
    return lambda: it.post(pages[0]), lambda: it.post(pages[1])


def _release_by_command(it: Scene) -> tuple[Act, Act]:
    working, frozen = _two_drivers()
    return lambda: it.command("workspace", "release", working), lambda: it.command("workspace", "release", frozen)


CASES |= {
    "console workspaces.workspacedriver release": _release_by_console,
    "command workspace release": _release_by_command,
}
