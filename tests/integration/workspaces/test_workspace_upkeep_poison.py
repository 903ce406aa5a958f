"""One archive that S3 fails over, or one row that fails, stops no job of workspaces for the others (WSP-08, WSP-12)."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from dpp_project import clock
from dpp_project.aws import clients
from dpp_project.jobs.registry import PassReport
from dpp_project.settings import ENV
from ops.workspaces import services
from ops.workspaces.archive_store.store import ArchiveStore
from ops.workspaces.models import Workspace, WorkspaceArchive
from ops.workspaces.states import ArchiveState, Phase, Writer
from ops.workspaces.upkeep import collecting, orphans, purging, resting, scrubbing
from tenants.models import Tenant
from tests.gear.builders.workspace_rows import a_workspace, an_archive, seen, sold, unused, worked_on, written
from tests.gear.faults.scripted import Scripted
from tests.integration.workspaces.test_workspaces_upkeep import HOUR, kept, passed, put, store, superseded, tenant

__all__ = ["sold", "store", "tenant"]
pytestmark = [pytest.mark.usefixtures("sold", "aws"), pytest.mark.contract("WSP-08")]
REFUSED = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"


@pytest.fixture
def scripted_s3(store: ArchiveStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """Between the jobs and the bucket."""
    with Scripted(str(ENV.S3_ENDPOINT_URL)).running() as script:
        scripted = ArchiveStore(clients.new_s3(script.url), store.bucket)
        monkeypatch.setattr("ops.workspaces.archive_store.configured.shared_archive_store", lambda: scripted)
        yield script


def to_collect(store: ArchiveStore, tenant: Tenant) -> str:
    return superseded(store, tenant)[0].pk


def to_purge(store: ArchiveStore, tenant: Tenant) -> str:
    """Deleted nine days ago."""
    workspace = a_workspace(tenant)
    services.delete_workspace(workspace_id=workspace.pk, actor="owner:dpp_test")
    known, facts = put(store, workspace)
    an_archive(workspace, **facts)
    long_ago = clock.now() - timedelta(days=9)
    worked_on(workspace, deleted_at=long_ago, archive_key=known)
    written(workspace, Writer.API, delete_requested_at=long_ago)
    return str(workspace.pk)


def to_scrub(store: ArchiveStore, tenant: Tenant) -> str:
    return kept(store, a_workspace(tenant), ArchiveState.VERIFIED).pk


def left_over(store: ArchiveStore, tenant: Tenant) -> str:
    """In the bucket, and in no row."""
    return put(store, a_workspace(tenant))[0]


def count_collected() -> int:
    return WorkspaceArchive.objects.filter(deleted_at__isnull=False).count()


def count_purged() -> int:
    return Workspace.objects.filter(purged_at__isnull=False).count()


def count_scrubbed() -> int:
    return WorkspaceArchive.objects.filter(scrubbed_at__isnull=False).count()


def count_taken_in() -> int:
    return WorkspaceArchive.objects.filter(state=ArchiveState.QUARANTINED).count()


JOBS = pytest.mark.parametrize(
    ("run_once", "method", "made", "count_done"),
    [
        (collecting.collect_archives, "DELETE", to_collect, count_collected),
        (purging.purge_workspaces, "GET", to_purge, count_purged),
        (scrubbing.scrub_archives, "GET", to_scrub, count_scrubbed),
        (orphans.look_for_orphans, "HEAD", left_over, count_taken_in),
    ],
    ids=["collect", "purge", "scrub", "orphans"],
)


@JOBS
def test_wsp_08_what_s3_refuses_is_one_rows_alone_and_shown(
    run_once: Callable[..., PassReport],
    method: str,
    made: Callable[[ArchiveStore, Tenant], str],
    count_done: Callable[[], int],
    tenant: Tenant,
    store: ArchiveStore,
    scripted_s3: Scripted,
) -> None:
    poison, *_ = sorted(made(store, tenant) for _ in range(3))
    with scripted_s3.answering(403, REFUSED, only=method, holding=poison.encode()):
        report = passed(run_once)
        assert (report.errors, count_done()) == (1, 2)
        skipped = report.detail["skipped"]
        assert isinstance(skipped, dict)
        assert list(skipped) == [poison]
        assert skipped[poison].startswith("S3 answered ")
    assert passed(run_once).errors == 0
    assert count_done() == 3


@JOBS
def test_wsp_08_one_archive_that_s3_never_answers_for_stops_one_pass_and_not_the_next(
    run_once: Callable[..., PassReport],
    method: str,
    made: Callable[[ArchiveStore, Tenant], str],
    count_done: Callable[[], int],
    tenant: Tenant,
    store: ArchiveStore,
    scripted_s3: Scripted,
) -> None:
    """Whether S3 is away or fails over one object alone, the first failure does not tell."""
    poison, *_ = sorted(made(store, tenant) for _ in range(3))
    with scripted_s3.answering(503, only=method, holding=poison.encode()):
        for _ in range(2):
            report = passed(run_once)
            assert (report.errors, report.detail["waits_for"]) == (0, "S3")
        assert count_done() == 2
    passed(run_once)
    assert count_done() == 3


@pytest.mark.contract("WSP-12")
def test_wsp_12_a_workspace_that_cannot_be_put_to_rest_keeps_no_other_awake(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = sorted((a_workspace(tenant, standby_ttl_seconds=HOUR) for _ in range(3)), key=lambda one: one.pk)
    for workspace in idle:
        seen(workspace, Phase.RUNNING)
        unused(workspace, seconds=HOUR + 60)
    poison, rest = idle[0], services.rest_workspace

    def rests(workspace: Workspace, **asked: Any) -> bool:
        if workspace.pk == poison.pk:
            raise ValueError(workspace.pk)
        return rest(workspace, **asked)

    with monkeypatch.context() as patched:
        patched.setattr(services, "rest_workspace", rests)
        report = passed(resting.rest_idle_workspaces)
    assert (report.seen, report.changed, report.errors) == (3, 2, 1)
    assert report.detail["skipped"] == {str(poison.pk): "ValueError"}
    assert passed(resting.rest_idle_workspaces).changed == 1
