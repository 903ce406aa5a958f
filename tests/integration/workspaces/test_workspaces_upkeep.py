"""What is done by time and by the books, against a real bucket: rests, collections, orphans, scrubs."""

import io
import re
import threading
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from prometheus_client import REGISTRY
from redis import Redis

from dpp_project import clock
from dpp_project.aws import clients
from dpp_project.devstack.programs import REPOSITORY
from dpp_project.jobs.registry import PassReport
from dpp_project.refusals import Refusal
from dpp_project.settings import ENV
from ops.workspaces import metrics, naming, quotas, services
from ops.workspaces.archive_store.archives import ArchiveIdentity
from ops.workspaces.archive_store.store import ArchiveStore
from ops.workspaces.drivers.base import TOO_MUCH_TO_MEASURE, DriverUnavailable, Label
from ops.workspaces.host import measuring, overfull
from ops.workspaces.models import Workspace, WorkspaceArchive, WorkspaceEvent, WorkspaceVolume
from ops.workspaces.quotas import Quotas
from ops.workspaces.rows import archives, transitions
from ops.workspaces.states import ArchiveState, DesiredState, Operation, Phase, Writer
from ops.workspaces.upkeep import collecting, forgetting, orphans, purging, resting, scrubbing
from tenants.models import Tenant
from tests.gear.builders import archives as gear
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.workspace_rows import (
    DRIVER,
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
from tests.gear.builders.workspace_world import World
from tests.gear.reference.memory_driver import MemoryDriver
from tests.gear.waiting import wait_until

__all__ = ["sold"]
pytestmark = [pytest.mark.usefixtures("sold", "aws"), pytest.mark.contract("WSP-08")]
HOUR = 3_600


@pytest.fixture
def tenant(transactional_db: None, valkey: Redis) -> Tenant:
    return a_tenant()


@pytest.fixture
def store(aws: str) -> ArchiveStore:
    """Over an empty bucket."""
    made = gear.store()
    for upload in made.list_uploads():
        made.abort_upload(upload.key, upload.upload_id)
    for one in made.list_archives(""):
        made.delete(one.key)
    return made


def keys(store: ArchiveStore) -> set[str]:
    return {one.key for one in store.list_archives("")}


def put(store: ArchiveStore, workspace: Workspace, content: bytes = b"") -> tuple[str, dict[str, Any]]:
    """An archive in the bucket, and what its row would say."""
    op_id, tar = uuid.uuid4(), content or bytes(10_240)
    key, identity = naming.archive_key(workspace.pk, op_id=op_id), ArchiveIdentity(op_id.hex, 1)
    sent = store.upload(key, identity, gear.given(io.BytesIO(tar)), opened=gear.ignore)
    found = store.verify(key, identity, sent)
    facts = {"object_bytes": found.object_bytes, "tar_bytes": found.tar_bytes, "sha256": found.sha256}
    return key, {"archive_key": key, "op_id": op_id, "token": op_id.hex} | facts


def kept(store: ArchiveStore, workspace: Workspace, state: ArchiveState, *, hours_old: float = 0) -> WorkspaceArchive:
    """In the bucket and in a row."""
    _, facts = put(store, workspace)
    return an_archive(workspace, state, hours_old=hours_old, **facts)


def passed(run_once: Callable[..., PassReport], *, hours: float = 0) -> PassReport:
    return run_once(now=clock.now() + timedelta(hours=hours), limit=1_000)


def states() -> dict[str, str]:
    return dict(WorkspaceArchive.objects.values_list("archive_key", "state"))


@pytest.mark.contract("WSP-12")
def test_wsp_12_what_is_unused_goes_down_one_level_and_no_other(tenant: Tenant) -> None:
    ttls = {"standby_ttl_seconds": HOUR, "archive_ttl_seconds": 2 * HOUR}
    idle, used, never, rising, at_work, resting_long, resting_short = (
        a_workspace(tenant, **(ttls | asked))
        for asked in (
            *({}, {}, {"standby_ttl_seconds": None}, {}, {}),
            *({"desired_state": DesiredState.STANDBY}, {"desired_state": DesiredState.STANDBY}),
        )
    )
    for workspace in (idle, used, never, at_work):
        seen(workspace, Phase.RUNNING)
    for workspace in (rising, resting_long, resting_short):
        seen(workspace, Phase.STANDBY)
    facts = {"operation": "STOPPING", "op_id": uuid.uuid4(), "op_started_at": clock.now(), "op_attempt": 1}
    worked_on(at_work, **facts, op_lease_until=clock.now())
    for workspace in (idle, never, rising, at_work, resting_short):
        unused(workspace, seconds=HOUR + 60)
    unused(used, seconds=HOUR - 60)
    unused(resting_long, seconds=2 * HOUR + 60)
    assert passed(resting.preview_resting_workspaces).changed == 2
    report = passed(resting.rest_idle_workspaces, hours=-1_000)
    assert (report.seen, report.changed) == (2, 2)
    wanted = {idle.pk: "STANDBY", resting_long.pk: "ARCHIVED", resting_short.pk: "STANDBY"}
    for workspace in Workspace.objects.all():
        assert workspace.desired_state == wanted.get(workspace.pk, "RUNNING")


def superseded(store: ArchiveStore, tenant: Tenant, *, hours_old: float = 3) -> tuple[WorkspaceArchive, Workspace]:
    """An archive that a newer one has replaced."""
    workspace = a_workspace(tenant, desired_state=DesiredState.STANDBY)
    older = kept(store, workspace, ArchiveState.SUPERSEDED, hours_old=hours_old)
    newer = kept(store, workspace, ArchiveState.VERIFIED)
    return older, worked_on(workspace, archive_key=newer.pk, op_id=newer.op_id)


def test_wsp_08_only_what_a_newer_archive_replaced_two_hours_ago_is_collected(
    tenant: Tenant, store: ArchiveStore
) -> None:
    goes, _ = superseded(store, tenant)
    superseded(store, tenant, hours_old=1.9)
    pinned, by = superseded(store, tenant)
    op_id = uuid.uuid4()
    lease = {"op_started_at": clock.now(), "op_lease_until": clock.now(), "op_attempt": 1}
    worked_on(by, operation="RESTORING", op_id=op_id, **lease)
    archives.pin_archive(pinned.pk, op_id=op_id)
    _, in_error = superseded(store, tenant)
    seen(in_error, Phase.ERROR)
    of_last_operation, workspace = superseded(store, tenant)
    worked_on(workspace, op_id=of_last_operation.op_id)
    current, workspace = superseded(store, tenant)
    worked_on(workspace, archive_key=current.pk)
    lost, workspace = superseded(store, tenant)
    store.delete(str(workspace.archive_key))
    let_go, _ = superseded(store, tenant)
    archives.pin_archive(let_go.pk, op_id=uuid.uuid4())
    before = keys(store)
    report = passed(collecting.collect_archives)
    assert before - keys(store) == {goes.pk, let_go.pk}
    assert {key for key, state in states().items() if state == "DELETED"} == {goes.pk, let_go.pk}
    assert (report.changed, report.errors) == (2, 1)
    assert report.detail["skipped"] == {lost.pk: "NewerIsMissing"}
    told = WorkspaceEvent.objects.filter(kind="ArchiveCollected")
    assert {one.detail["archive_key"] for one in told} == {goes.pk, let_go.pk}
    assert passed(collecting.collect_archives).changed == 0


def test_wsp_08_a_purged_workspace_keeps_nothing(tenant: Tenant, store: ArchiveStore) -> None:
    _, workspace = superseded(store, tenant, hours_old=0)
    kept(store, workspace, ArchiveState.QUARANTINED)
    seen(workspace, Phase.ERROR)
    worked_on(workspace, deleted_at=clock.now())
    assert passed(collecting.collect_archives).changed == 0
    worked_on(workspace, purged_at=clock.now(), archive_key=None)
    assert passed(collecting.collect_archives).changed == 3
    assert keys(store) == set()
    assert set(states().values()) == {"DELETED"}


def test_wsp_08_a_death_beside_the_delete_leaves_it_to_the_next_pass(
    tenant: Tenant, store: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, _ = superseded(store, tenant)

    def dies(*_args: object) -> None:
        raise SystemExit

    places: tuple[tuple[object, str], ...] = ((ArchiveStore, "delete"), (archives, "mark_archive_collected"))
    for module, place in places:
        with monkeypatch.context() as patch:
            patch.setattr(module, place, dies)
            with pytest.raises(SystemExit):
                passed(collecting.collect_archives)
        row = WorkspaceArchive.objects.get(pk=older.pk)
        assert (row.state, row.deleted_at) == ("DELETED", None)
        assert not archives.pin_archive(older.pk, op_id=uuid.uuid4())
        assert (older.pk in keys(store)) is (place == "delete")
    assert passed(collecting.collect_archives).changed == 1
    assert WorkspaceArchive.objects.get(pk=older.pk).deleted_at is not None


def test_wsp_08_a_pin_that_commits_while_it_is_collected_keeps_the_archive(tenant: Tenant, store: ArchiveStore) -> None:
    older, _ = superseded(store, tenant)
    answers: list[bool] = []

    def collect() -> None:
        try:
            answers.append(archives.begin_collecting(collecting.archives_to_collect(), older.pk))
        finally:
            connection.close()

    with transaction.atomic():
        assert archives.pin_archive(older.pk, op_id=uuid.uuid4())
        rival = threading.Thread(target=collect)
        rival.start()
        wait_until(someone_waits_for_a_row)
    rival.join()
    assert answers == [False]
    assert states()[older.pk] == "SUPERSEDED"


def test_wsp_08_what_no_row_accounts_for_is_set_aside_or_told_and_never_deleted(
    tenant: Tenant, store: ArchiveStore
) -> None:
    """As after a restore of an older database: its workspace is known, or not even that."""
    workspace = a_workspace(tenant)
    known = kept(store, workspace, ArchiveState.VERIFIED)
    found, _ = put(store, workspace)
    strange, _ = put(store, Workspace(workspace_id=uuid.uuid4()))
    clients.s3_client(ENV.S3_ENDPOINT_URL).put_object(Bucket=store.bucket, Key="notes.txt", Body=b"mine")
    reborn = kept(store, workspace, ArchiveState.DELETED)
    WorkspaceArchive.objects.filter(pk=reborn.pk).update(deleted_at=clock.now() - timedelta(hours=1))
    dead = kept(store, workspace, ArchiveState.DELETED)
    WorkspaceArchive.objects.filter(pk=dead.pk).update(deleted_at=clock.now() + timedelta(hours=1))
    report = passed(orphans.look_for_orphans, hours=1_000)
    assert keys(store) == {known.pk, found, strange, "notes.txt", reborn.pk}
    assert states()[found] == "QUARANTINED"
    assert states()[known.pk] == "VERIFIED"
    assert report.detail["unknown"] == sorted([strange, "notes.txt"])
    assert report.detail["newer_than_its_row"] == [reborn.pk]
    assert (report.detail["quarantined"], report.detail["deleted"], report.errors) == (1, 1, 3)
    assert WorkspaceEvent.objects.get(kind="ArchiveQuarantined").detail == {"archive_key": found}
    again = passed(orphans.look_for_orphans, hours=1_000)
    assert (again.changed, again.errors) == (0, 3)


@pytest.mark.contract("WSP-01")
def test_wsp_08_an_archive_that_was_missed_once_is_looked_at_anew_where_it_lies(
    tenant: Tenant, store: ArchiveStore
) -> None:
    """A bucket that says once that nothing is there puts no workspace into ERROR for good."""
    missed, other, gone = (a_workspace(tenant) for _ in range(3))
    keys_of = {one.pk: kept(store, one, ArchiveState.VERIFIED) for one in (missed, other, gone)}
    WorkspaceArchive.objects.filter(pk=keys_of[other.pk].pk).update(object_bytes=1)
    store.delete(keys_of[gone.pk].pk)
    for one in (missed, other, gone):
        worked_on(one, archive_key=keys_of[one.pk].pk)
        not_there = {"status": False, "reason": "ArchiveNotFound", "message": "", "last_transition_time": ""}
        written(one, Writer.MONITOR, conditions={"storage.archive_ready": not_there}, phase=Phase.ERROR)
    revs = dict(Workspace.objects.values_list("pk", "rev"))
    report = passed(orphans.look_for_orphans)
    assert (report.detail["seen_again"], report.changed) == (1, 1)
    again = dict(Workspace.objects.values_list("pk", "rev"))
    assert {one: again[one] - revs[one] for one in again} == {missed.pk: 1, other.pk: 0, gone.pk: 0}


def test_wsp_08_uploads_whose_operation_is_over_are_ended_and_those_under_way_are_left(
    tenant: Tenant, store: ArchiveStore
) -> None:
    s3 = clients.s3_client(ENV.S3_ENDPOINT_URL)

    def uploading(workspace: Workspace, *, whole: bool) -> WorkspaceArchive:
        row = an_archive(workspace, ArchiveState.UPLOADING, sha256=None, verified_at=None, object_bytes=None)
        if whole:
            identity = ArchiveIdentity(row.token, 1)
            store.upload(row.pk, identity, gear.given(io.BytesIO(bytes(10_240))), opened=gear.ignore)
            return row
        upload = s3.create_multipart_upload(Bucket=store.bucket, Key=row.pk)
        archives.open_upload(row.pk, upload_id=upload["UploadId"])
        return row

    workspace, busy = a_workspace(tenant), a_workspace(tenant)
    left, written_whole, at_work = (
        uploading(workspace, whole=False),
        uploading(workspace, whole=True),
        uploading(busy, whole=False),
    )
    lease = {"op_started_at": clock.now(), "op_lease_until": clock.now(), "op_attempt": 1}
    worked_on(busy, operation="ARCHIVING", op_id=at_work.op_id, **lease)
    worked_on(workspace, op_id=left.op_id)
    assert passed(orphans.look_for_orphans, hours=0.9).changed == 0
    report = passed(orphans.look_for_orphans, hours=1.1)
    assert {one.key for one in store.list_uploads()} == {at_work.pk}
    assert states() == {left.pk: "DELETED", written_whole.pk: "QUARANTINED", at_work.pk: "UPLOADING"}
    assert keys(store) == {written_whole.pk}
    assert (report.detail["aborted"], report.detail["given_up"], report.detail["quarantined"]) == (1, 1, 1)
    s3.create_multipart_upload(Bucket=store.bucket, Key=gear.new_key())
    assert passed(orphans.look_for_orphans, hours=23).changed == 0
    assert passed(orphans.look_for_orphans, hours=25).detail["aborted"] == 1


@pytest.mark.contract("WSP-10")
def test_wsp_10_a_deleted_workspace_is_let_go_after_seven_days_and_not_before_it_is_gone(tenant: Tenant) -> None:
    old, young, unfinished = (a_workspace(tenant) for _ in range(3))
    for workspace, days in ((old, 7), (young, 6.99), (unfinished, 30)):
        services.delete_workspace(workspace_id=workspace.pk, actor="owner:dpp_test")
        asked_at = clock.now() - timedelta(days=days)
        written(workspace, Writer.API, delete_requested_at=asked_at)
    for workspace in (old, young):
        worked_on(workspace, deleted_at=clock.now(), archive_key=an_archive(workspace).pk)
    assert passed(purging.preview_purging_workspaces).changed == 1
    assert passed(purging.purge_workspaces, hours=-1_000).changed == 1
    purged = Workspace.objects.filter(purged_at__isnull=False)
    assert [(one.pk, one.archive_key) for one in purged] == [(old.pk, None)]
    assert isinstance(services.undelete_workspace(workspace_id=old.pk, actor="owner:dpp_test"), Refusal)
    assert passed(purging.purge_workspaces).seen == 0


@pytest.mark.contract("WSP-08", "WSP-10")
@pytest.mark.parametrize("is_found_before", [True, False])
def test_wsp_08_a_deletion_that_an_older_database_brings_back_purges_nothing_that_came_since(
    tenant: Tenant,
    store: ArchiveStore,
    monkeypatch: pytest.MonkeyPatch,
    is_found_before: bool,  # noqa: FBT001  a case
) -> None:
    """In truth it was undeleted, used, and archived again; these rows know of none of it."""
    workspace = a_workspace(tenant)
    services.delete_workspace(workspace_id=workspace.pk, actor="owner:dpp_test")
    known, facts = put(store, workspace)
    an_archive(workspace, **facts)
    long_ago = clock.now() - timedelta(days=9)
    worked_on(workspace, deleted_at=long_ago, archive_key=known)
    written(workspace, Writer.API, delete_requested_at=long_ago)
    newer, _ = put(store, workspace)
    if is_found_before:
        passed(orphans.look_for_orphans)
        assert states()[newer] == "QUARANTINED"
    report = passed(purging.purge_workspaces)
    assert (report.changed, report.errors) == (0, 1)
    assert report.detail == {"skipped": {str(workspace.pk): "ArchivesAreUnknown"}}
    passed(collecting.collect_archives)
    assert keys(store) == {known, newer}
    away = ArchiveStore(clients.new_s3("http://127.0.0.1:1"), store.bucket)
    with monkeypatch.context() as patched:
        patched.setattr("ops.workspaces.archive_store.configured.shared_archive_store", lambda: away)
        assert passed(purging.purge_workspaces).detail == {"waiting": 1, "waits_for": "S3"}
    # A person gives what the copy calls deleted its seven days anew, as the runbook says; or lets the unknown one go.
    store.delete(newer)
    assert passed(purging.purge_workspaces).changed == 1
    passed(collecting.collect_archives)
    assert keys(store) == set()


@pytest.mark.contract("WSP-10")
def test_wsp_10_what_a_copy_calls_deleted_is_given_its_seven_days_anew(tenant: Tenant) -> None:
    """By the statement of the runbook: an undeletion that left nothing in bucket or driver is known to no copy."""
    workspace = a_workspace(tenant)
    services.delete_workspace(workspace_id=workspace.pk, actor="owner:dpp_test")
    worked_on(workspace, deleted_at=clock.now(), archive_key=an_archive(workspace).pk)
    written(workspace, Writer.API, delete_requested_at=clock.now() - timedelta(days=9))
    assert passed(purging.preview_purging_workspaces).changed == 1
    page = (REPOSITORY / "docs/workspaces_operating.md").read_text(encoding="utf-8")
    (statement,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    with connection.cursor() as cursor:
        for one in filter(str.strip, statement.split(";")):
            cursor.execute(one)
    assert passed(purging.preview_purging_workspaces).changed == 0
    assert isinstance(services.undelete_workspace(workspace_id=workspace.pk, actor="owner:dpp_test"), Workspace)


@pytest.mark.contract("WSP-10")
def test_wsp_10_a_timeline_is_kept_as_long_as_its_workspace_and_thirty_days(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, older, young, there = (a_workspace(tenant) for _ in range(4))
    for workspace, days in ((old, 31), (older, 400), (young, 29)):
        services.delete_workspace(workspace_id=workspace.pk, actor="owner:dpp_test")
        at = clock.now() - timedelta(days=days)
        worked_on(workspace, deleted_at=at, purged_at=at)
    lines = WorkspaceEvent.objects.count()
    assert lines == 7
    assert passed(forgetting.preview_forgetting_timelines).changed == 4
    monkeypatch.setattr(forgetting, "WORKSPACES_AT_ONCE", 1)
    monkeypatch.setattr(forgetting, "LINES_AT_ONCE", 1)
    assert forgetting.forget_timelines(now=clock.now(), limit=3).changed == 3
    assert passed(forgetting.forget_timelines).changed == 1
    assert passed(forgetting.forget_timelines).changed == 0
    kept = set(WorkspaceEvent.objects.values_list("workspace_id", flat=True))
    assert (kept, WorkspaceEvent.objects.count()) == ({young.pk, there.pk}, 3)
    assert Workspace.objects.count() == 4, "rows stay for the books"


@pytest.mark.contract("WSP-10")
def test_wsp_10_a_host_whose_clock_is_ahead_deletes_no_timeline_early(tenant: Tenant) -> None:
    workspace = a_workspace(tenant)
    services.delete_workspace(workspace_id=workspace.pk, actor="owner:dpp_test")
    worked_on(workspace, deleted_at=clock.now(), purged_at=clock.now())
    lines = WorkspaceEvent.objects.count()
    assert lines == 2
    for run_once in (forgetting.preview_forgetting_timelines, forgetting.forget_timelines):
        assert passed(run_once, hours=40 * 24).changed == 0
    assert WorkspaceEvent.objects.count() == lines


@pytest.mark.contract("WSP-14")
def test_wsp_14_homes_are_measured_those_at_work_more_often(tenant: Tenant) -> None:
    driver = MemoryDriver()
    homes = {name: a_volume(a_workspace(tenant)) for name in ("new", "at work", "at rest", "lost")}
    seen(homes["at work"].workspace, Phase.RUNNING)
    for name in ("new", "at work", "at rest"):
        driver.ensure_volume(homes[name].pk, Label(str(homes[name].workspace_id), str(homes[name].op_id), 1))
    ages = {"at work": 6, "at rest": 6, "lost": 61}
    for name, minutes in ages.items():
        at = clock.now() - timedelta(minutes=minutes)
        WorkspaceVolume.objects.filter(pk=homes[name].pk).update(used_bytes=7, measured_at=at)
    assert measuring.measure_once(driver, driver_id=DRIVER) == 2
    used = {name: WorkspaceVolume.objects.get(pk=home.pk).used_bytes for name, home in homes.items()}
    assert used == {"new": 0, "at work": 0, "at rest": 7, "lost": 7}
    assert measuring.measure_once(driver, driver_id=DRIVER) == 0


@pytest.mark.contract("WSP-14")
def test_wsp_14_who_fills_the_disk_is_put_to_rest_and_nobody_else(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = MemoryDriver()
    full, beside = a_workspace(tenant), a_workspace(a_tenant())
    for workspace, size in ((full, 2_000_001), (beside, 2_000_000)):
        home = a_volume(workspace)
        worked_on(workspace)
        seen(workspace, Phase.RUNNING)
        driver.ensure_volume(home.pk, Label(str(home.workspace_id), str(home.op_id), 1))
        driver.volumes[home.pk].files["x"] = b"x" * size
        at = clock.now() - timedelta(seconds=6)
        WorkspaceVolume.objects.filter(pk=home.pk).update(used_bytes=7, measured_at=at)
    monkeypatch.setattr(quotas, "current_quotas", lambda: Quotas(workspaces=20, running=5, megabytes=2))
    assert overfull.keep_free(driver, driver_id=DRIVER, floor_bytes=driver.free) == 0
    assert WorkspaceVolume.objects.filter(used_bytes=7).count() == 2, "there is room, and nothing was measured"
    assert overfull.keep_free(driver, driver_id=DRIVER, floor_bytes=driver.free + 1) == 1
    wanted = {one.pk: one.desired_state for one in Workspace.objects.all()}
    assert wanted == {full.pk: DesiredState.STANDBY, beside.pk: DesiredState.RUNNING}
    told = WorkspaceEvent.objects.get(workspace=full, kind="Overfull")
    assert told.detail == {"desired_state": "STANDBY", "used_bytes": 2_000_001}
    assert overfull.rest_overfull(DRIVER) == 0


@pytest.mark.contract("WSP-14")
def test_wsp_14_a_home_of_too_many_files_to_measure_is_put_to_rest_where_the_disk_is_full(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = MemoryDriver()
    many, beside = a_workspace(tenant), a_workspace(a_tenant())
    for workspace in (many, beside):
        home = a_volume(workspace)
        worked_on(workspace)
        seen(workspace, Phase.RUNNING)
        driver.ensure_volume(home.pk, Label(str(home.workspace_id), str(home.op_id), 1))
    plain = driver.usage_bytes

    def usage(volume: str) -> int:
        if str(many.pk) in volume:
            raise DriverUnavailable("du did not end", reason=TOO_MUCH_TO_MEASURE)
        return plain(volume)

    monkeypatch.setattr(driver, "usage_bytes", usage)
    assert measuring.measure_once(driver, driver_id=DRIVER) == 1
    assert overfull.rest_overfull(DRIVER) == 0, "where there is room it runs on"
    WorkspaceVolume.objects.update(measured_at=None)
    assert overfull.keep_free(driver, driver_id=DRIVER, floor_bytes=driver.free + 1) == 1
    wanted = {one.pk: one.desired_state for one in Workspace.objects.all()}
    assert wanted == {many.pk: DesiredState.STANDBY, beside.pk: DesiredState.RUNNING}


@pytest.mark.contract("WSP-07")
def test_wsp_07_a_scrub_finds_what_the_bucket_changed_or_lost(tenant: Tenant, store: ArchiveStore) -> None:
    workspace = a_workspace(tenant)
    whole, changed, lost = (kept(store, workspace, ArchiveState.VERIFIED) for _ in range(3))
    s3 = clients.s3_client(ENV.S3_ENDPOINT_URL)
    was = s3.get_object(Bucket=store.bucket, Key=changed.pk)
    body = was["Body"].read()
    s3.put_object(Bucket=store.bucket, Key=changed.pk, Body=body[:-1] + bytes([body[-1] ^ 1]), Metadata=was["Metadata"])
    store.delete(lost.pk)
    report = passed(scrubbing.scrub_archives)
    assert states() == {whole.pk: "VERIFIED", changed.pk: "QUARANTINED", lost.pk: "QUARANTINED"}
    assert (report.seen, report.changed, report.errors) == (3, 2, 2)
    reasons = {one.detail["archive_key"]: one.detail["reason"] for one in WorkspaceEvent.objects.filter(actor="scrub")}
    assert reasons == {changed.pk: "ArchiveCorrupted", lost.pk: "ArchiveNotFound"}
    assert WorkspaceArchive.objects.get(pk=whole.pk).scrubbed_at is not None
    assert Workspace.objects.get().rev == 2


def test_wsp_08_a_bucket_that_is_away_changes_no_row(
    tenant: Tenant, store: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, workspace = superseded(store, tenant)
    left = an_archive(workspace, ArchiveState.UPLOADING, sha256=None, verified_at=None)
    before = list(WorkspaceArchive.objects.order_by("pk").values())
    away = ArchiveStore(clients.new_s3("http://127.0.0.1:1"), store.bucket)
    monkeypatch.setattr("ops.workspaces.archive_store.configured.shared_archive_store", lambda: away)
    for run_once in (collecting.collect_archives, orphans.look_for_orphans, scrubbing.scrub_archives):
        report = passed(run_once, hours=50)
        assert (report.changed, report.errors, report.detail["waits_for"]) == (0, 0, "S3")
    assert list(WorkspaceArchive.objects.order_by("pk").values()) == before
    assert {older.pk, left.pk} <= set(states())


@pytest.mark.contract("WSP-12")
def test_wsp_12_metrics_count_how_long_operations_take_and_who_was_overtaken(world: World) -> None:
    def told(name: str, operation: str) -> float:
        return REGISTRY.get_sample_value(f"dpp_workspace_{name}", {"operation": operation}) or 0.0

    before = {name: told(name, "STARTING") for name in ("operation_seconds_count", "operation_seconds_sum")}
    overtaken = told("takeovers_total", "STARTING")
    one = world.workspace(desired=DesiredState.STANDBY)
    world.converges(one, Phase.STANDBY)
    world.wish(one, DesiredState.RUNNING)
    world.look()
    assert transitions.begin_operation(world.row(one), Operation.STARTING) is not None
    world.time_passes(seconds=61)  # nobody works on it
    world.converges(one, Phase.RUNNING)
    assert told("operation_seconds_count", "STARTING") == before["operation_seconds_count"] + 1
    assert 61 <= told("operation_seconds_sum", "STARTING") - before["operation_seconds_sum"] < 120
    assert told("takeovers_total", "STARTING") == overtaken + 1


@pytest.mark.contract("WSP-12")
def test_wsp_12_metrics_tell_phases_and_lags(tenant: Tenant) -> None:
    at: datetime = clock.now() - timedelta(hours=2)
    seen(a_workspace(tenant), Phase.RUNNING, observed_at=at)
    worked_on(seen(a_workspace(tenant), Phase.ERROR))
    told = {
        (sample.name, *sample.labels.values()): sample.value
        for family in metrics.workspace_metrics()
        for sample in family.samples
    }
    assert told["dpp_workspaces", "RUNNING"] == told["dpp_workspaces", "ERROR"] == 1
    assert told["dpp_workspaces", "ARCHIVED"] == 0
    assert 7_200 <= told["dpp_workspace_oldest_observation_seconds",] < 7_500
    assert told["dpp_workspaces_not_converged",] == told["dpp_workspace_operations",] == 0
