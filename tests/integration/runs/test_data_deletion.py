"""`DELETE /v1/runs/{id}/data`: 410 at once, the bytes gone, the money where it was (DPP-92)."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import urllib3
from botocore.exceptions import EndpointConnectionError
from django.db.models import Sum
from django.test import Client

from budget.models import LedgerEntry
from dpp_project import clock as clock_module
from dpp_project.audit.models import AuditEntry
from dpp_project.clock import FixedClock
from reaper import retention
from runs import transitions
from runs.bucket import storage
from runs.bucket.storage import RunStorage
from runs.finish import data_deletion
from runs.finish.data_deletion import DataDeleted
from runs.models import Run, RunInputs, RunMetadata
from tenants.scopes import Scope
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import RUNS, Shop, a_body, a_shop
from tests.gear.builders.tenants import a_key, bearer
from tests.gear.faults.rivals import OnAnotherConnection
from tests.gear.waiting import wait_until
from tests.integration.runs.test_runs_api_read import completed, failed, started, submitted

pytestmark = pytest.mark.contract("DPP-92")

Make = Callable[[Shop], Run]


def delete(shop: Shop, run: Run | str) -> Any:
    run_id = run if isinstance(run, str) else run.run_id
    return shop.client.delete(f"{RUNS}/{run_id}/data", headers=bearer(shop.issued))


def objects(run: Run) -> int:
    bucket = storage.shared_run_storage()
    prefix = storage.run_prefix(tenant_id=run.tenant_id, run_id=run.run_id, created_at=run.created_at)
    return int(bucket.client().list_objects_v2(Bucket=bucket.bucket_name, Prefix=prefix)["KeyCount"])


def entered(run: Run) -> int | None:
    total: int | None = LedgerEntry.objects.filter(run_id=run.run_id).aggregate(total=Sum("amount_usd_micros"))["total"]
    return total


def test_dpp_92_the_data_go_and_the_money_stays(shop: Shop) -> None:
    run = completed(shop, metadata={"person": "Ada"})
    url = shop.get(f"{RUNS}/{run.run_id}").json()["result"]["presigned_url"]
    balance, charged, before = shop.balance_micros(), entered(run), gear.row(run.run_id)
    assert (charged, objects(run)) == (-50_000, 1)

    answer = delete(shop, run)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["X-DPP-Cost-Used-USD-Micros"] == "50000"
    gone = shop.get(f"{RUNS}/{run.run_id}")
    assert (gone.status_code, gone.json()["reason_code"]) == (410, "GONE")
    assert gone.headers["X-DPP-Cost-Used-USD-Micros"] == "50000"
    assert objects(run) == 0
    assert urllib3.request("GET", url).status == 404  # an address that was handed out before leads nowhere
    assert not RunMetadata.objects.filter(run_id=run.run_id).exists()
    now = gear.row(run.run_id)
    assert (now.version, now.status, now.money_state) == (before.version, "COMPLETED", "SETTLED")
    assert [one["status"] for one in shop.get(RUNS).json()["runs"]] == ["EXPIRED"]

    report = recovery.run_loop(retention.expire_runs)
    assert (report.seen, report.changed, report.errors) == (1, 1, 0)
    stone = gear.row(run.run_id)
    assert (stone.status, stone.actual_cost_usd_micros, stone.result_key) == ("EXPIRED", 50_000, None)
    assert not RunInputs.objects.filter(run_id=run.run_id).exists()
    assert (shop.balance_micros(), entered(run)) == (balance, charged)
    assert shop.get(f"{RUNS}/{run.run_id}").status_code == 410
    recovery.law_holds(shop.tenant)


def test_dpp_92_a_failed_run_has_its_data_deleted_too(shop: Shop) -> None:
    run = failed(shop)
    assert delete(shop, run).status_code == 204
    assert shop.get(f"{RUNS}/{run.run_id}").status_code == 410
    recovery.run_loop(retention.expire_runs)
    assert gear.row(run.run_id).status == "EXPIRED"


@pytest.mark.parametrize(
    ("make", "state"),
    [
        (submitted, "The run is QUEUED."),
        (started, "The run is PROCESSING."),
        (lambda shop: gear.row(_claimed(shop).run_id), "The run is PROCESSING and being finished."),
    ],
    ids=["queued", "at work", "being finished"],
)
def test_dpp_92_a_run_that_has_not_ended_is_409_with_its_state(shop: Shop, make: Make, state: str) -> None:
    run = make(shop)
    before = gear.everything(run.run_id)
    answer = delete(shop, run)
    assert (answer.status_code, answer.json()["reason_code"]) == (409, "RUN_NOT_ENDED")
    assert answer.json()["detail"] == state
    assert answer.json()["run_id"] == str(run.run_id)
    assert gear.everything(run.run_id) == before
    assert not AuditEntry.objects.filter(act="run data deleted").exists()


def _claimed(shop: Shop) -> Run:
    run = started(shop)
    gear.won(transitions.claim_worked(run=run, lease_token="lease", token="t", intent=gear.fee(), actor="worker"))
    return run


def test_dpp_92_asked_twice_it_answers_the_same_and_is_entered_once(shop: Shop) -> None:
    run = completed(shop, metadata={"person": "Ada"})
    first = delete(shop, run)
    until = gear.row(run.run_id).retention_until
    second = delete(shop, run)
    assert (first.status_code, first.content) == (second.status_code, second.content) == (204, b"")
    assert gear.row(run.run_id).retention_until == until
    recovery.run_loop(retention.expire_runs)
    assert delete(shop, run).status_code == 204
    (entry,) = AuditEntry.objects.filter(act="run data deleted")
    assert (entry.subject, entry.tenant_id) == (f"run {run.run_id}", shop.tenant.tenant_id)
    assert (entry.source, entry.place) == ("api", "127.0.0.1")
    assert entry.after is not None
    assert entry.after["metadata_deleted"] == 1
    assert "Ada" not in str((entry.before, entry.after))
    seen = shop.get("/v1/audit").json()
    assert "run data deleted" in str(seen)


def test_dpp_92_metadata_of_a_tombstone_goes_when_its_owner_says_so(shop: Shop) -> None:
    run = gear.aged(completed(shop, metadata={"person": "Ada"}), retention_until=1)
    recovery.run_loop(retention.expire_runs)
    assert RunMetadata.objects.filter(run_id=run.run_id).count() == 1
    until = gear.row(run.run_id).retention_until
    assert delete(shop, run).status_code == 204
    assert not RunMetadata.objects.filter(run_id=run.run_id).exists()
    assert gear.row(run.run_id).retention_until == until
    assert AuditEntry.objects.filter(act="run data deleted").count() == 1


def test_dpp_92_anothers_run_is_404_like_an_unknown_one_and_stays(shop: Shop) -> None:
    run, other = completed(shop, metadata={"a": "b"}), a_shop()
    before = gear.everything(run.run_id)
    answers = [delete(other, run), delete(other, str(uuid.uuid4())), delete(other, "not-an-id")]
    assert [answer.status_code for answer in answers] == [404] * 3
    assert len({answer.json()["detail"] for answer in answers}) == 1
    assert gear.everything(run.run_id) == before
    assert RunMetadata.objects.filter(run_id=run.run_id).count() == 1
    assert objects(run) == 1
    assert not AuditEntry.objects.filter(act="run data deleted").exists()


def test_dpp_92_it_takes_the_scope_that_submits(shop: Shop) -> None:
    run = completed(shop)
    reader = a_key(shop.tenant, scopes=[Scope.RUNS_READ])
    answer = shop.client.delete(f"{RUNS}/{run.run_id}/data", headers=bearer(reader))
    assert (answer.status_code, answer.json()["reason_code"]) == (403, "SCOPE_MISSING")
    assert shop.get(f"{RUNS}/{run.run_id}").status_code == 200


@pytest.mark.parametrize("seconds", [-3_600, 3_600], ids=["behind", "ahead"])
def test_dpp_92_it_is_gone_at_once_by_either_clock(shop: Shop, seconds: int) -> None:
    """This process's clock is an hour off; the row is past its time by it and by the database's."""
    run = gear.aged(completed(shop), created_at=7_200)
    wrong = FixedClock(clock_module.now() + timedelta(seconds=seconds))
    with clock_module.use_clock(wrong):
        assert delete(shop, run).status_code == 204
        assert shop.get(f"{RUNS}/{run.run_id}").status_code == 410
    recovery.run_loop(retention.expire_runs)
    assert gear.row(run.run_id).status == "EXPIRED"


def test_dpp_92_where_the_bucket_is_away_the_retention_deletes(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    run = completed(shop)
    with monkeypatch.context() as away:
        away.setattr(RunStorage, "delete_prefix", _away)
        assert delete(shop, run).status_code == 204
    assert shop.get(f"{RUNS}/{run.run_id}").status_code == 410
    assert objects(run) == 1
    recovery.run_loop(retention.expire_runs)
    assert objects(run) == 0


def _away(*_: object) -> int:
    raise EndpointConnectionError(endpoint_url="https://s3")


def test_dpp_92_a_death_behind_the_statement_leaves_it_to_the_retention(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = completed(shop, metadata={"a": "b"})

    class Died(BaseException):
        pass

    def dies(_run: Run) -> None:
        raise Died

    monkeypatch.setattr(data_deletion, "_delete_objects", dies)
    with pytest.raises(Died):
        data_deletion.delete_run_data(tenant_id=run.tenant_id, run_id=run.run_id, actor="owner:dpp_x")
    assert AuditEntry.objects.filter(act="run data deleted").count() == 1
    assert not RunMetadata.objects.filter(run_id=run.run_id).exists()
    assert shop.get(f"{RUNS}/{run.run_id}").status_code == 410
    recovery.run_loop(retention.expire_runs)
    assert (objects(run), gear.row(run.run_id).status) == (0, "EXPIRED")


def test_dpp_92_of_two_at_once_one_ends_its_time(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has asked for the time, and the second comes before its statement: only the lock keeps it back."""
    run = completed(shop, metadata={"a": "b"})
    rivals: list[OnAnotherConnection[bool]] = []
    end_retention = transitions.end_retention

    def act() -> bool:
        answer = data_deletion.delete_run_data(tenant_id=run.tenant_id, run_id=run.run_id, actor="owner:dpp_x")
        assert isinstance(answer, DataDeleted)
        return answer.anew

    def after_a_rival(**asked: Any) -> tuple[bool, int]:
        if not rivals:
            rivals.append(rival := OnAnotherConnection(act))
            wait_until(lambda: rival.is_done() or rival.waits_for_a_lock(), what="the rival to meet the lock")
        return end_retention(**asked)

    monkeypatch.setattr(transitions, "end_retention", after_a_rival)
    assert (act(), rivals[0].answer()) == (True, False)
    assert AuditEntry.objects.filter(act="run data deleted").count() == 1


def test_dpp_92_a_key_whose_run_is_deleted_is_answered_410_until_it_is_free(shop: Shop) -> None:
    sent = shop.submit(a_body(), key="order-2026-0001")
    run = gear.row(uuid.UUID(sent.json()["run_id"]))
    assert shop.cancel(str(run.run_id)).status_code == 200
    assert delete(shop, run).status_code == 204
    assert shop.submit(a_body(), key="order-2026-0001").status_code == 410
    recovery.run_loop(retention.expire_runs)
    again = shop.submit(a_body(), key="order-2026-0001")
    assert again.status_code == 202
    assert again.json()["run_id"] != str(run.run_id)


def test_dpp_92_an_operator_deletes_from_the_runs_page(shop: Shop, console: Client) -> None:
    run, still_open = completed(shop), submitted(shop)
    assert "delete_data" in console.get(f"/admin/runs/run/{run.run_id}/change/").content.decode()
    assert "delete_data" not in console.get(f"/admin/runs/run/{still_open.run_id}/change/").content.decode()
    console.post(f"/admin/runs/run/{still_open.run_id}/delete_data/")
    assert shop.get(f"{RUNS}/{still_open.run_id}").status_code == 200
    console.post(f"/admin/runs/run/{run.run_id}/delete_data/")
    assert shop.get(f"{RUNS}/{run.run_id}").status_code == 410
    (entry,) = AuditEntry.objects.filter(act="run data deleted")
    assert entry.actor == "operator:ada"
