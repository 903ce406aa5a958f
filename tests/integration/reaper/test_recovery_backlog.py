"""Recovery that cannot be blocked: not by one refused object, not by an S3 that is away, not by a backlog (DPP-46)."""

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest
from boto3 import Session
from botocore.config import Config
from botocore.exceptions import EndpointConnectionError
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models.functions import Now
from django.test import Client

from dpp_project.aws import clients
from dpp_project.jobs import deadline, registry, runner
from reaper import claim_reconciler, driver, lease_reaper, metrics, retention
from runs import transitions
from runs.bucket import storage
from runs.models import Run, UploadRoom
from runs.reads import for_recovery
from tenants.models import Tenant
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.faults.proxy import Mode, Proxy
from tests.gear.faults.scripted import Scripted
from tests.proving import proofs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-46")]

REFUSES_TO_LIST = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
REFUSES_TO_DELETE = b"<DeleteResult><Error><Key>k</Key><Code>AccessDenied</Code></Error></DeleteResult>"


@pytest.fixture
def scripted_s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    bucket = storage.shared_run_storage()
    with Scripted(str(bucket.endpoint_url)).running() as script:
        monkeypatch.setattr(bucket, "endpoint_url", script.url)
        yield script


@pytest.fixture
def s3_through_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """With little patience: the real one waits 10 s for an answer, twice."""
    bucket = storage.shared_run_storage()
    target, impatient = urlsplit(str(bucket.endpoint_url)), Config(read_timeout=0.3)
    with Proxy(str(target.hostname), target.port or 80) as proxy:
        monkeypatch.setattr(bucket, "endpoint_url", proxy.url)
        config = clients.s3_config(proxy.url).merge(impatient)
        client = Session().client("s3", endpoint_url=proxy.url, config=config, **clients._identity())
        monkeypatch.setitem(clients._s3_by_address(), proxy.url, client)
        yield proxy


def found(report: Any) -> tuple[int, int, int]:
    return report.seen, report.changed, report.errors


def remarks_of(job: str) -> list[str]:
    """As `manage.py jobs` shows them."""
    out = io.StringIO()
    call_command("jobs", "--json", stdout=out)
    return next(one["last"]["remarks"] for one in json.loads(out.getvalue())["jobs"] if one["job"] == job)


# One object that S3 refuses.


@pytest.mark.contract("DPP-23")
@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (403, REFUSES_TO_LIST, "S3 answered AccessDenied"),
        (200, REFUSES_TO_DELETE, "S3 did not delete 1 objects, the first with AccessDenied"),
    ],
    ids=["the list", "the deletion"],
)
def test_dpp_23_one_refused_object_keeps_no_other_run_from_expiring(
    status: int, body: bytes, why: str, tenant: Tenant, scripted_s3: Scripted, client: Client
) -> None:
    poison = recovery.past_retention(tenant)
    others = [recovery.past_retention(recovery.funded()) for _ in range(3)]
    before, skipped = gear.everything(poison.run_id), metrics.SKIPPED.labels(loop="retention")._value.get()
    method = "GET" if status == 403 else "POST"
    with scripted_s3.answering(status, body, only=method, holding=str(poison.run_id).encode()):
        report = runner.run_job_pass(registry.job_named("run_retention")).report
        assert report is not None
        assert found(report) == (4, 3, 1)
        assert report.detail["skipped"] == {str(poison.run_id): why}
        assert gear.everything(poison.run_id) == before
        assert {gear.row(run.run_id).status for run in others} == {"EXPIRED"}
        assert metrics.SKIPPED.labels(loop="retention")._value.get() == skipped + 1
        assert remarks_of("run_retention") == [f"skipped {poison.run_id}: {why}"]
        client.force_login(User.objects.create_superuser("ada"))
        assert str(poison.run_id) in client.get("/admin/").content.decode()
        assert found(recovery.run_loop(retention.expire_runs)) == (1, 0, 1)
    assert scripted_s3.refused == 2
    assert found(recovery.run_loop(retention.expire_runs)) == (1, 1, 0)
    assert gear.row(poison.run_id).status == "EXPIRED"


@pytest.mark.contract("DPP-23")
def test_dpp_23_s3_in_a_black_hole_is_asked_once_in_a_pass(tenant: Tenant, s3_through_proxy: Proxy) -> None:
    runs = [recovery.past_retention(tenant) for _ in range(5)]
    before, connections = [gear.everything(run.run_id) for run in runs], s3_through_proxy.connections
    with s3_through_proxy.outage(Mode.BLACK_HOLE):
        report = recovery.run_loop(retention.expire_runs)
    assert (*found(report), report.detail) == (1, 0, 0, {"waiting": 1, "waits_for": "S3"})
    assert s3_through_proxy.connections - connections <= 2  # one question, and boto3's own second attempt
    assert [gear.everything(run.run_id) for run in runs] == before
    assert found(recovery.run_loop(retention.expire_runs)) == (5, 5, 0)


@pytest.mark.contract("DPP-23")
def test_dpp_23_rows_that_failed_before_ask_an_s3_in_a_black_hole_no_second_time(
    tenant: Tenant, s3_through_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five, with an upload before them: what is silent would otherwise take each of them its own timeouts."""
    for _ in range(5):
        recovery.past_retention(tenant)
    with monkeypatch.context() as patch:
        patch.setattr(storage.RunStorage, "delete_prefix", _fails)
        assert found(recovery.run_loop(retention.expire_runs)) == (5, 0, 5)
    an_old_upload(tenant)
    connections = s3_through_proxy.connections
    with s3_through_proxy.outage(Mode.BLACK_HOLE):
        report = recovery.run_loop(retention.expire_runs)
    assert (*found(report), report.detail) == (1, 0, 0, {"waiting": 1, "waits_for": "S3"})
    assert s3_through_proxy.connections - connections <= 2
    assert found(recovery.run_loop(retention.expire_runs)) == (6, 6, 0)


def an_old_upload(tenant: Tenant) -> UploadRoom:
    room = UploadRoom.objects.create(
        upload_id=uuid4(), tenant=tenant, key=f"uploads/{tenant.tenant_id}/{uuid4()}/a.png", size_bytes=1
    )
    UploadRoom.objects.filter(pk=room.pk).update(created_at=Now() - timedelta(days=31))
    return room


@pytest.mark.contract("DPP-23", "HRD-20")
def test_hrd_20_a_run_or_an_upload_that_s3_never_answers_for_keeps_no_other_upload(
    tenant: Tenant, scripted_s3: Scripted
) -> None:
    """Whether S3 is away or fails over one object alone, the first failure does not tell: the next pass does."""
    run, rooms = recovery.past_retention(tenant), [an_old_upload(tenant) for _ in range(3)]
    with scripted_s3.answering(503, only="GET", holding=str(run.run_id).encode()):
        for changed in (0, 3):
            report = recovery.run_loop(retention.expire_runs)
            assert (report.changed, report.errors, report.detail["waits_for"]) == (changed, 0, "S3")
    assert UploadRoom.objects.count() == 0
    rooms = [an_old_upload(tenant) for _ in range(3)]
    with scripted_s3.answering(503, only="GET", holding=rooms[0].key.split("/")[2].encode()):
        for changed in (0, 3):  # with the run that failed before, now that S3 answers for what comes before it
            report = recovery.run_loop(retention.expire_runs)
            assert (report.changed, report.errors, report.detail["waits_for"]) == (changed, 0, "S3")
    assert UploadRoom.objects.get() == rooms[0]
    assert found(recovery.run_loop(retention.expire_runs)) == (1, 1, 0)


# S3 away, and claims that need it beside claims that do not.


@pytest.mark.contract("DPP-42")
def test_dpp_42_600_claims_with_s3_in_a_black_hole_and_those_that_need_no_s3_end_in_the_same_pass(
    tenant: Tenant, s3_through_proxy: Proxy
) -> None:
    delivers = recovery.many_claimed(tenant, 400, ends="COMPLETED")
    fails = recovery.many_claimed(tenant, 200, ends="FAILED")
    before, connections = versions(delivers), s3_through_proxy.connections
    with s3_through_proxy.outage(Mode.BLACK_HOLE):
        report = recovery.run_loop(claim_reconciler.reconcile_claims, limit=1_000)
    assert (*found(report), report.detail) == (201, 200, 0, {"waiting": 1, "waits_for": "S3"})
    assert s3_through_proxy.connections - connections <= 2
    assert stages(fails) == {"COMMITTED"}
    assert (stages(delivers), versions(delivers)) == ({"CLAIMED"}, before)
    assert found(recovery.run_loop(claim_reconciler.reconcile_claims, limit=1_000)) == (400, 400, 0)
    assert stages(delivers) == {"COMMITTED"}
    recovery.law_holds(tenant)


def versions(run_ids: list[UUID]) -> dict[UUID, int]:
    return dict(Run.objects.filter(run_id__in=run_ids).values_list("run_id", "version"))


def stages(run_ids: list[UUID]) -> set[str | None]:
    return set(Run.objects.filter(run_id__in=run_ids).values_list("finalize_stage", flat=True))


# A backlog.


@pytest.mark.contract("DPP-40")
def test_dpp_40_a_backlog_is_drained_in_one_pass_batch_by_batch(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(for_recovery, "BATCH", 64)
    drained_in_one_pass(tenant, 1_000)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.contract("DPP-40")
def test_dpp_40_20_000_expired_leases_are_drained_in_one_pass(tenant: Tenant) -> None:
    drained_in_one_pass(tenant, 20_000)
    proofs.report(cases=20_000)


def drained_in_one_pass(tenant: Tenant, count: int) -> None:
    run_ids = recovery.many_at_work(tenant, count)
    report = recovery.run_loop(lease_reaper.reap_leases, limit=registry.job_named("lease_reaper").limit)
    assert (*found(report), report.detail) == (count, count, 0, {})
    assert stages(run_ids) == {"COMMITTED"}
    assert recovery.held_micros(tenant) == {}
    recovery.law_holds(tenant)


# Rows that failed before, and cost time each time.


class _Slow:
    """An edge that takes four seconds of the pass, and fails for some rows."""

    def __init__(self, edge: Any, bad: list[UUID]) -> None:
        self._edge, self._bad, self.seconds = edge, bad, 0.0

    def __call__(self, **values: Any) -> Any:
        self.seconds += 4
        if (values["run"].run_id if "run" in values else values["run_id"]) in self._bad:
            raise ValueError("this row is bad")
        return self._edge(**values)


@pytest.mark.contract("DPP-42")
def test_dpp_42_claims_that_failed_keep_no_claim_with_a_result_waiting(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = recovery.many_claimed(tenant, 3, ends="FAILED")
    slow = _Slow(transitions.retake, bad)
    with monkeypatch.context() as patch:
        patch.setattr(transitions, "retake", slow)
        assert found(recovery.run_loop(claim_reconciler.reconcile_claims)) == (3, 0, 3)
        delivers = recovery.left_claimed(tenant)
        slow.seconds = 0.0
        patch.setattr(deadline, "monotonic", lambda: slow.seconds)
        with deadline.within_deadline(deadline.Pass(seconds=10)):
            assert found(recovery.run_loop(claim_reconciler.reconcile_claims)) == (3, 1, 2)
    assert gear.row(delivers.run_id).finalize_stage == "COMMITTED"
    assert found(recovery.run_loop(claim_reconciler.reconcile_claims)) == (3, 3, 0)
    recovery.law_holds(tenant)


@pytest.mark.contract("HRD-08")
def test_dpp_46_rows_that_fail_again_take_a_bounded_part_of_a_pass(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = recovery.many_claimed(tenant, 5, ends="FAILED")
    monkeypatch.setattr(driver, "FAILED_AGAIN_MAX", 2)
    with monkeypatch.context() as patch:
        patch.setattr(transitions, "retake", _Slow(transitions.retake, bad))
        assert found(recovery.run_loop(claim_reconciler.reconcile_claims)) == (5, 0, 5)
        assert found(recovery.run_loop(claim_reconciler.reconcile_claims)) == (2, 0, 2)
    assert found(recovery.run_loop(claim_reconciler.reconcile_claims)) == (5, 5, 0)


@pytest.mark.contract("DPP-42")
def test_dpp_42_claims_that_failed_and_need_no_s3_end_while_s3_is_away(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = recovery.many_claimed(tenant, 3, ends="FAILED")
    with monkeypatch.context() as patch:
        patch.setattr(transitions, "retake", _Slow(transitions.retake, failed))
        assert found(recovery.run_loop(claim_reconciler.reconcile_claims)) == (3, 0, 3)
    delivers = recovery.many_claimed(tenant, 3, ends="COMPLETED")
    with monkeypatch.context() as patch:
        patch.setattr(storage.RunStorage, "head", _away)
        report = recovery.run_loop(claim_reconciler.reconcile_claims)
    assert (*found(report), report.detail) == (4, 3, 0, {"waiting": 1, "waits_for": "S3"})
    assert (stages(failed), stages(delivers)) == ({"COMMITTED"}, {"CLAIMED"})
    assert found(recovery.run_loop(claim_reconciler.reconcile_claims)) == (3, 3, 0)


@pytest.mark.contract("DPP-23")
def test_dpp_23_tombstones_that_stay_keep_no_run_from_expiring(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    tombstones = [recovery.past_retention(tenant) for _ in range(3)]
    assert found(recovery.run_loop(retention.expire_runs)) == (3, 3, 0)
    for run in tombstones:
        gear.aged(run, retention_until=400 * 86_400)
    slow = _Slow(transitions.forget, [run.run_id for run in tombstones])
    with monkeypatch.context() as patch:
        patch.setattr(transitions, "forget", slow)
        assert found(recovery.run_loop(retention.expire_runs)) == (3, 0, 3)
        due = recovery.past_retention(tenant)
        slow.seconds = 0.0
        patch.setattr(deadline, "monotonic", lambda: slow.seconds)
        with deadline.within_deadline(deadline.Pass(seconds=6)):
            assert found(recovery.run_loop(retention.expire_runs)) == (3, 1, 2)
    assert gear.row(due.run_id).status == "EXPIRED"
    assert found(recovery.run_loop(retention.expire_runs)) == (3, 3, 0)


def _fails(*_: object) -> Any:
    raise ValueError("this object is bad")


def _away(*_: object) -> Any:
    raise EndpointConnectionError(endpoint_url="http://s3")
