"""Acts on workspaces against rivals: quotas, a rest beside a use, one writer for each column, hints."""

import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from redis import Redis

from dpp_project import clock as clock_module
from dpp_project.clock import FixedClock
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.workspaces import explaining, hints, quotas, services
from ops.workspaces.explaining import Actor
from ops.workspaces.models import Workspace, WorkspaceAccess, WorkspaceArchive, WorkspaceEvent
from ops.workspaces.quotas import Quotas
from ops.workspaces.specs import SpecDocument
from ops.workspaces.states import ArchiveState, DesiredState, Phase, Writer
from tenants.models import Tenant
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.workspace_rows import (
    a_driver,
    a_volume,
    a_workspace,
    an_archive,
    seen,
    sold,
    someone_waits_for_a_row,
    unused,
    worked_on,
    written,
)
from tests.gear.waiting import wait_until

__all__ = ["sold"]
pytestmark = [pytest.mark.usefixtures("sold"), pytest.mark.contract("WSP-12")]
ME = "owner:dpp_test"


@pytest.fixture
def tenant(transactional_db: None, valkey: Redis) -> Tenant:
    return a_tenant()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Quotas:
    """Three workspaces, two at once, 10 MB."""
    most = Quotas(3, 2, 10)
    monkeypatch.setattr(quotas, "current_quotas", lambda: most)
    return most


def asked(name: str, state: DesiredState = DesiredState.RUNNING) -> services.NewWorkspace:
    return services.NewWorkspace(name=name, spec=SpecDocument(), desired_state=state)


def created(tenant: Tenant, name: str, state: DesiredState = DesiredState.RUNNING) -> services.Made | Refusal:
    return services.create_workspace(tenant_id=tenant.tenant_id, asked=asked(name, state), actor=ME)


def wanting(workspace: Workspace, **wanted: Any) -> Workspace | Refusal:
    return services.change_workspace(workspace_id=workspace.pk, actor=ME, wanted=wanted)


def reason(answer: object) -> ReasonCode:
    assert isinstance(answer, Refusal), answer
    return answer.reason


def all_at_once(*acts: Callable[[], object]) -> list[object]:
    """Each in a thread and a connection of its own, begun together."""
    answers: list[object] = []
    barrier = threading.Barrier(len(acts))

    def run(act: Callable[[], object]) -> None:
        barrier.wait()
        try:
            answers.append(act())
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.contract("WSP-14")
def test_wsp_14_a_quota_holds_against_creations_at_once(tenant: Tenant, few: Quotas) -> None:
    answers = all_at_once(
        *[lambda name=name: created(tenant, name, DesiredState.STANDBY) for name in ("a", "b", "c", "d", "e")]
    )
    refused = [one for one in answers if isinstance(one, Refusal)]
    assert [one.reason for one in refused] == [ReasonCode.WORKSPACE_QUOTA_REACHED] * 2
    assert Workspace.objects.count() == few.workspaces
    assert WorkspaceEvent.objects.count() == few.workspaces


@pytest.mark.contract("WSP-14")
def test_wsp_14_a_quota_holds_against_wakes_at_once(tenant: Tenant, few: Quotas) -> None:
    resting = [a_workspace(tenant, desired_state=DesiredState.STANDBY) for _ in range(few.workspaces)]
    answers = all_at_once(*[lambda pk=one.pk: services.wake_workspace(workspace_id=pk, actor=ME) for one in resting])
    assert [reason(one) for one in answers if isinstance(one, Refusal)] == [ReasonCode.WORKSPACE_QUOTA_REACHED]
    assert Workspace.objects.filter(desired_state="RUNNING").count() == few.running


@pytest.mark.contract("WSP-14")
def test_wsp_14_fifty_wakes_at_once_are_one_change(tenant: Tenant) -> None:
    workspace = a_workspace(tenant, desired_state=DesiredState.STANDBY)
    answers = all_at_once(*[lambda: services.wake_workspace(workspace_id=workspace.pk, actor=ME)] * 8)
    answers += [services.wake_workspace(workspace_id=workspace.pk, actor=ME) for _ in range(42)]
    assert all(isinstance(one, Workspace) and one.generation == 2 for one in answers)
    assert WorkspaceEvent.objects.filter(kind="Changed").count() == 1


@pytest.mark.contract("WSP-14")
def test_wsp_14_a_full_tenant_gets_no_further_volume_and_keeps_those_it_has(tenant: Tenant, few: Quotas) -> None:
    full = a_workspace(tenant, desired_state=DesiredState.STANDBY)
    volume = a_volume(full, used_bytes=9_000_000)
    archived = a_workspace(tenant, desired_state=DesiredState.ARCHIVED)
    worked_on(archived, archive_key=an_archive(archived, tar_bytes=1_500_000).pk)
    assert reason(wanting(archived, desired_state=DesiredState.RUNNING)) == ReasonCode.WORKSPACE_QUOTA_REACHED
    WorkspaceArchive.objects.update(tar_bytes=1_000_000)
    assert isinstance(wanting(archived, desired_state=DesiredState.STANDBY), Workspace)
    type(volume).objects.update(used_bytes=10_000_000)
    assert reason(created(tenant, "one-more")) == ReasonCode.WORKSPACE_QUOTA_REACHED
    assert isinstance(wanting(full, desired_state=DesiredState.RUNNING), Workspace)
    type(volume).objects.update(state="DOOMED")
    assert reason(created(tenant, "one-more")) == ReasonCode.WORKSPACE_QUOTA_REACHED
    type(volume).objects.update(state="GONE")
    assert isinstance(created(tenant, "one-more"), services.Made)


@pytest.mark.contract("WSP-14")
def test_wsp_14_who_has_too_much_archived_makes_no_further_one_and_has_back_what_there_is(
    tenant: Tenant, few: Quotas
) -> None:
    kept = a_workspace(tenant, desired_state=DesiredState.ARCHIVED)
    worked_on(kept, archive_key=an_archive(kept, object_bytes=6_000_000).pk)
    deleted = a_workspace(tenant, desired_state=DesiredState.STANDBY)
    services.delete_workspace(workspace_id=deleted.pk, actor=ME)
    older = an_archive(deleted, ArchiveState.SUPERSEDED, object_bytes=4_000_000)
    worked_on(deleted, deleted_at=clock_module.now())
    before = Workspace.objects.count()
    refused = created(tenant, "one-more", DesiredState.STANDBY)
    assert isinstance(refused, Refusal)
    assert (refused.reason, "the archives hold 10 MB" in refused.detail) == (ReasonCode.WORKSPACE_QUOTA_REACHED, True)
    assert Workspace.objects.count() == before
    assert isinstance(wanting(kept, desired_state=DesiredState.RUNNING), Workspace)
    assert isinstance(services.undelete_workspace(workspace_id=deleted.pk, actor=ME), Workspace)
    assert isinstance(created(a_tenant(), "another-s", DesiredState.STANDBY), services.Made)
    WorkspaceArchive.objects.filter(pk=older.pk).update(state=ArchiveState.DELETED)
    assert isinstance(created(tenant, "one-more", DesiredState.STANDBY), services.Made)


@pytest.mark.contract("WSP-14")
def test_wsp_14_a_deleted_workspace_counts_until_its_volume_is_gone(tenant: Tenant, few: Quotas) -> None:
    rows = [a_workspace(tenant, desired_state=DesiredState.STANDBY) for _ in range(few.workspaces)]
    services.delete_workspace(workspace_id=rows[0].pk, actor=ME)
    assert reason(created(tenant, "one-more")) == ReasonCode.WORKSPACE_QUOTA_REACHED
    worked_on(rows[0], deleted_at=clock_module.now())
    assert isinstance(created(tenant, "one-more", DesiredState.STANDBY), services.Made)
    answer = services.undelete_workspace(workspace_id=rows[0].pk, actor=ME)
    assert reason(answer) == ReasonCode.WORKSPACE_QUOTA_REACHED


@pytest.mark.contract("WSP-03")
def test_wsp_03_the_services_write_as_the_api_and_the_database_refuses_all_others(tenant: Tenant) -> None:
    workspace = a_workspace(tenant)
    owned: dict[Writer, dict[str, Any]] = {
        Writer.API: {"desired_state": "STANDBY"},
        Writer.MONITOR: {"phase": "RUNNING"},
        Writer.RECONCILER: {"rev": 5},
    }
    for writer in Writer:
        for owner, columns in owned.items():
            if writer != owner:
                with pytest.raises(DatabaseError, match="changes a column of"), transaction.atomic():
                    written(workspace, writer, **columns)
    with pytest.raises(DatabaseError, match="nobody changes a column of api"), transaction.atomic():
        Workspace.objects.filter(pk=workspace.pk).update(name="b")
    assert Workspace.objects.get() == workspace
    for owner, columns in owned.items():
        written(workspace, owner, **columns)


def test_wsp_12_what_is_changed_is_hinted_once_it_is_committed(tenant: Tenant, valkey: Redis) -> None:
    workspace = a_workspace(tenant)
    client: Any = valkey
    heard = client.pubsub(ignore_subscribe_messages=True)
    heard.subscribe(hints.CHANNEL)
    wait_until(lambda: valkey.pubsub_numsub(hints.CHANNEL) == [(hints.CHANNEL, 1)])
    with transaction.atomic():
        wanting(workspace, desired_state=DesiredState.STANDBY)
        transaction.set_rollback(True)
    wanting(workspace, name="b")
    assert next(heard.listen())["data"] == str(workspace.pk)
    assert heard.get_message(timeout=0.05) is None
    heard.close()


def rested(workspace: Workspace, seconds: int = 60) -> bool:
    return services.rest_workspace(workspace, to=DesiredState.STANDBY, unused_for=timedelta(seconds=seconds))


def test_wsp_12_a_rest_gives_way_to_a_use_a_change_and_a_deletion(tenant: Tenant) -> None:
    workspace = a_workspace(tenant)
    assert not rested(workspace)
    unused(workspace, seconds=61)
    assert not rested(workspace, 62)
    wanting(workspace, name="b")
    assert not rested(workspace)
    workspace.refresh_from_db()
    assert rested(workspace)
    workspace.refresh_from_db()
    assert (workspace.desired_state, workspace.generation) == ("STANDBY", 3)
    assert WorkspaceEvent.objects.latest("id").actor == "ttl"
    services.delete_workspace(workspace_id=workspace.pk, actor=ME)
    assert not rested(workspace)
    assert Workspace.objects.get().desired_state == "DELETED"


def test_wsp_12_a_use_that_commits_while_a_rest_is_decided_is_seen(tenant: Tenant) -> None:
    """The rest waits for the row that the use has locked, and reads it as the use has left it."""
    workspace = a_workspace(tenant)
    unused(workspace, seconds=600)
    answers: list[object] = []
    with transaction.atomic():
        services.touch_workspace(workspace.pk)
        rival = threading.Thread(target=lambda: answers.append(_closing(lambda: rested(workspace))))
        rival.start()
        wait_until(someone_waits_for_a_row)
    rival.join()
    assert answers == [False]
    assert Workspace.objects.get().desired_state == "RUNNING"


def _closing(act: Callable[[], object]) -> object:
    try:
        return act()
    finally:
        connection.close()


def test_wsp_12_looks_are_no_use_and_uses_are_written_down_sparely(tenant: Tenant) -> None:
    workspace = a_workspace(tenant)
    for seconds, moves in ((5, False), (60, True)):
        unused(workspace, seconds=seconds)
        before = WorkspaceAccess.objects.get().last_access_at
        services.find_workspace(str(workspace.pk))
        assert WorkspaceAccess.objects.get().last_access_at == before
        services.touch_workspace(workspace.pk)
        assert (WorkspaceAccess.objects.get().last_access_at > before) is moves


@pytest.mark.contract("WSP-14")
def test_wsp_14_a_frozen_driver_is_released_by_an_operator_alone_and_once(tenant: Tenant) -> None:
    del tenant
    a_driver(frozen_at=clock_module.now(), frozen_reason="VolumesVanished")
    released = services.release_driver(driver_id="local", actor="operator:ada")
    assert not isinstance(released, Refusal)
    assert (released.frozen_at, released.frozen_reason) == (None, "")
    assert reason(services.release_driver(driver_id="local", actor="operator:ada")) == ReasonCode.CONFLICT
    assert reason(services.release_driver(driver_id="other", actor="operator:ada")) == ReasonCode.NOT_FOUND


def situations(workspace: Workspace, now: datetime) -> Iterator[tuple[Workspace, Actor, str]]:
    yield workspace, Actor.HOST, "No host has taken it yet"
    yield worked_on(workspace), Actor.MONITOR, "not looked at yet"
    yield seen(workspace, Phase.PENDING), Actor.RECONCILER, "PROVISIONING comes next"
    facts = {
        "operation": "STARTING",
        "op_id": uuid.uuid4(),
        "op_started_at": now - timedelta(minutes=2),
        "op_attempt": 2,
    }
    at_work = worked_on(workspace, **facts, op_lease_until=now + timedelta(minutes=1), op_step="start", rev=1)
    yield at_work, Actor.RECONCILER, "STARTING is under way, at start."
    yield worked_on(workspace, op_lease_until=now - timedelta(minutes=1)), Actor.RECONCILER, "another takes it over"
    yield worked_on(workspace, op_lease_until=now - timedelta(minutes=2)), Actor.MONITOR, "is to be looked at"
    later = {"next_reconcile_at": now + timedelta(minutes=1), "error_info": {"reason": "NoSpace"}}
    yield worked_on(workspace, **later), Actor.RECONCILER, "failed (NoSpace) and is tried again"
    worked_on(workspace, operation="NONE", error_info=None, next_reconcile_at=None)
    yield seen(workspace, Phase.RUNNING), Actor.TTL, "asked to be STANDBY"
    stale = {"storage.archive_ready": {"status": True, "stale": True}}
    yield seen(workspace, Phase.RUNNING, conditions=stale), Actor.MONITOR, "storage.archive_ready is old"
    yield seen(workspace, Phase.ERROR), Actor.YOU, "It is in ERROR (VolumeLost: no more is known)"
    recovering = {"recover_generation": 1, "recover_from": "recheck"}
    yield written(workspace, Writer.API, **recovering), Actor.RECONCILER, "(recheck) is asked for"
    seen(workspace, Phase.DELETED)
    deleted = {"desired_state": "DELETED", "delete_requested_at": now}
    yield written(workspace, Writer.API, **deleted), Actor.PURGE, "can be undeleted"


def test_wsp_12_it_is_said_what_a_workspace_waits_for_and_who_acts_next(tenant: Tenant, clock: FixedClock) -> None:
    driver = a_driver()
    for workspace, actor, said in situations(a_workspace(tenant), clock.now()):
        found = explaining.explain_workspace(workspace, driver if workspace.driver_id else None, now=clock.now())
        assert said in found.said
        assert found.next_actor == actor
    driver.frozen_at = clock.now()
    written(workspace, Writer.API, desired_state="RUNNING", delete_requested_at=None)
    found = explaining.explain_workspace(Workspace.objects.get(), driver, now=clock.now())
    assert found.next_actor == Actor.OPERATOR
