"""Each column has one writer, and the database refuses the others; volumes and archives know no way back."""

import uuid
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from django.db import DatabaseError, transaction

from ops.workspaces.models import Workspace, WorkspaceEvent, WorkspaceVolume
from ops.workspaces.rows.writing import writing_as
from ops.workspaces.states import VolumeState, Writer
from tests.gear.builders.workspace_world import World

pytestmark = pytest.mark.contract("WSP-03")

AT: Final = datetime(2026, 3, 1, tzinfo=UTC)
COLUMNS: Final[dict[Writer, dict[str, Any]]] = {
    Writer.API: {
        "name": "another",
        "spec": {"ports": [1]},
        "generation": 9,
        "desired_state": "ARCHIVED",
        "standby_ttl_seconds": 60,
        "archive_ttl_seconds": 60,
        "recover_generation": 9,
        "recover_from": "recheck",
    },
    Writer.MONITOR: {
        "conditions": {"a": 1},
        "phase": "ERROR",
        "observed_at": AT,
        "observed_rev": 99,
        "observed_generation": 9,
    },
    Writer.RECONCILER: {
        "driver_id": "elsewhere",
        "op_id": uuid.UUID(int=1),
        "op_attempt": 9,
        "op_step": "start",
        "rev": 99,
        "op_started_at": AT,
        "op_lease_until": AT,
        "op_progress_bytes": 9,
        "archive_key": "a",
        "home_ctx": {"a": 1},
        "error_count": 9,
        "error_info": {"a": 1},
        "reconcile_failure_count": 9,
        "next_reconcile_at": AT,
        "recovered_generation": 9,
        "deleted_at": AT,
    },
}


def writes(writer: Writer | None, one: uuid.UUID, **columns: Any) -> bool:
    try:
        with transaction.atomic():
            if writer is None:
                Workspace.objects.filter(pk=one).update(**columns)
            else:
                with writing_as(writer):
                    Workspace.objects.filter(pk=one).update(**columns)
            transaction.set_rollback(True)
    except DatabaseError:
        return False
    return True


def test_wsp_03_a_column_is_changed_by_its_writer_alone(world: World) -> None:
    one = world.workspace()
    found = {
        (writer, name): [other for other in (None, *Writer) if writes(other, one, **{name: value})]
        for writer, columns in COLUMNS.items()
        for name, value in columns.items()
    }
    assert found == {(writer, name): [writer] for writer, name in found}
    assert len(found) == sum(len(columns) for columns in COLUMNS.values())


def test_wsp_03_counts_do_not_go_back_and_the_timeline_is_kept(world: World) -> None:
    (one,) = world.standing(1)
    world.turn()
    assert not writes(Writer.RECONCILER, one, rev=-1)
    assert not writes(Writer.API, one, generation=0)
    WorkspaceEvent.objects.create(workspace_id=one, actor="t", kind="K")
    with pytest.raises(DatabaseError), transaction.atomic():
        WorkspaceEvent.objects.update(kind="Other")


def test_wsp_03_a_volume_never_comes_back_to_life(world: World) -> None:
    (one,) = world.standing(1)

    def moves(before: VolumeState, after: VolumeState) -> bool:
        rows = WorkspaceVolume.objects.filter(workspace=one)
        try:
            with transaction.atomic():
                rows.all().delete()
                row = WorkspaceVolume(
                    volume_name="v",
                    workspace_id=one,
                    driver_id="here",
                    op_id=uuid.UUID(int=1),
                    attempt=1,
                    epoch=1,
                    state=before,
                )
                row.save(force_insert=True)
                rows.update(state=after)
                transaction.set_rollback(True)
        except DatabaseError:
            return False
        return True

    edges = {(before.value, after.value) for before in VolumeState for after in VolumeState if moves(before, after)}
    assert edges - {(state.value, state.value) for state in VolumeState} == {
        ("FILLING", "LIVE"),
        ("FILLING", "DOOMED"),
        ("LIVE", "DOOMED"),
        ("LIVE", "GONE"),
        ("DOOMED", "GONE"),
    }
