"""The only writer of volume rows: one function an edge, each one conditional UPDATE that says if it changed a row.

    (none) -> FILLING -> LIVE -> DOOMED -> GONE      made for an attempt, the home, archived, deleted
    FILLING -> DOOMED                                its attempt was given up, however far it had come
    LIVE -> GONE                                     a person said that it is lost

Each is committed before the effect it stands for: a volume that is there and has no row was not made by us, and one
whose row is DOOMED or GONE may be deleted whenever it is met.
"""

import uuid
from collections.abc import Iterable
from typing import Final

from django.db.models import Max, QuerySet
from django.db.models.functions import Now

from ops.workspaces import naming
from ops.workspaces.models import WorkspaceVolume
from ops.workspaces.states import VolumeState

DEAD: Final = (VolumeState.DOOMED, VolumeState.GONE)


def prepare_volume(
    workspace_id: uuid.UUID, *, driver_id: str, op_id: uuid.UUID, attempt: int, filled_from: str | None
) -> WorkspaceVolume:
    """A volume of this attempt's own. Those of attempts before it are nobody's from now on."""
    doom_unfinished(workspace_id)
    last = WorkspaceVolume.objects.filter(workspace_id=workspace_id).aggregate(last=Max("epoch"))["last"]
    return WorkspaceVolume.objects.create(
        volume_name=naming.volume_name(workspace_id, op_id=op_id, attempt=attempt),
        workspace_id=workspace_id,
        driver_id=driver_id,
        op_id=op_id,
        attempt=attempt,
        epoch=(last or 0) + 1,
        state=VolumeState.FILLING,
        filled_from=filled_from,
    )


def doom_unfinished(workspace_id: uuid.UUID) -> int:
    return _move_volume_rows(_volume_rows_of_workspace(workspace_id, VolumeState.FILLING), VolumeState.DOOMED)


def make_live(volume_name: str) -> bool:
    return _move_volume_rows(_volume_row_in_state(volume_name, VolumeState.FILLING), VolumeState.LIVE) > 0


def doom_volume(volume_name: str, *, starts: int) -> bool:
    """The home, once its archive was seen. True as well where it is doomed already, and was archived again."""
    rows = WorkspaceVolume.objects.filter(
        volume_name=volume_name, state__in=[VolumeState.LIVE.value, VolumeState.DOOMED.value]
    )
    return rows.update(state=VolumeState.DOOMED, starts=starts, changed_at=Now()) > 0


def doom_all(workspace_id: uuid.UUID) -> int:
    """A deletion that does without an archive: said by a person."""
    home = _volume_rows_of_workspace(workspace_id, VolumeState.LIVE)
    return doom_unfinished(workspace_id) + home.update(state=VolumeState.DOOMED, starts=None, changed_at=Now())


def mark_volume_gone(volume_name: str) -> bool:
    return _move_volume_rows(_volume_row_in_state(volume_name, VolumeState.DOOMED), VolumeState.GONE) > 0


def mark_volumes_lost(workspace_id: uuid.UUID) -> int:
    return _move_volume_rows(_volume_rows_of_workspace(workspace_id, VolumeState.LIVE), VolumeState.GONE)


def live_volume(workspace_id: uuid.UUID) -> WorkspaceVolume | None:
    return _volume_rows_of_workspace(workspace_id, VolumeState.LIVE).first()


def doomed_volumes(workspace_id: uuid.UUID) -> dict[str, int | None]:
    """With how often each had been started."""
    return dict(_volume_rows_of_workspace(workspace_id, VolumeState.DOOMED).values_list("volume_name", "starts"))


def volume_states(names: Iterable[str]) -> dict[str, str]:
    """Of those that have a row."""
    return dict(WorkspaceVolume.objects.filter(volume_name__in=list(names)).values_list("volume_name", "state"))


def dead_volumes(names: Iterable[str]) -> dict[str, int | None]:
    """Of these, with how often each had been started."""
    rows = WorkspaceVolume.objects.filter(volume_name__in=list(names), state__in=[one.value for one in DEAD])
    return dict(rows.values_list("volume_name", "starts"))


def never_home(names: Iterable[str]) -> dict[str, int | None]:
    """Of these, those that our rows do not take for the home, with how often each had been started."""
    rows = WorkspaceVolume.objects.filter(volume_name__in=list(names)).exclude(state=VolumeState.LIVE)
    return dict(rows.values_list("volume_name", "starts"))


def record_measured_volume(volume_name: str, used_bytes: int | None) -> None:
    """None: it was tried in vain, and what was known stands."""
    known = {} if used_bytes is None else {"used_bytes": used_bytes}
    WorkspaceVolume.objects.filter(volume_name=volume_name).update(measured_at=Now(), **known)


def _volume_row_in_state(volume_name: str, state: VolumeState) -> QuerySet[WorkspaceVolume]:
    return WorkspaceVolume.objects.filter(volume_name=volume_name, state=state)


def _volume_rows_of_workspace(workspace_id: uuid.UUID, state: VolumeState) -> QuerySet[WorkspaceVolume]:
    return WorkspaceVolume.objects.filter(workspace_id=workspace_id, state=state)


def _move_volume_rows(rows: QuerySet[WorkspaceVolume], state: VolumeState) -> int:
    return rows.update(state=state, changed_at=Now())
