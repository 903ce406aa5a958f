"""After the retention: result, inputs and history are gone, a tombstone and the money stay (DPP-23)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from django.db import connection, transaction
from django.db.models.functions import Now

from budget.rebuild import evidence
from budget.redis import keys, scripts
from dpp_project import clock
from dpp_project import retention as periods
from dpp_project.clock import FixedClock
from reaper import driver, retention
from reaper.models import DeadLetter
from runs import run_ids, transitions
from runs.bucket import storage
from runs.models import Run, RunHistory, RunInputs
from runs.operators import disputes
from tenants.models import Tenant
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-23")]

YEAR_SECONDS = 366 * 86_400


def prefix(run: Run) -> str:
    return storage.run_prefix(tenant_id=run.tenant_id, run_id=run.run_id, created_at=run.created_at)


def objects(run: Run) -> int:
    bucket = storage.shared_run_storage()
    return int(bucket.client().list_objects_v2(Bucket=bucket.bucket_name, Prefix=prefix(run))["KeyCount"])


def expire() -> tuple[int, int, int]:
    report = recovery.run_loop(retention.expire_runs)
    return report.seen, report.changed, report.errors


def test_dpp_23_result_inputs_and_history_go_and_the_money_stays(tenant: Tenant) -> None:
    run, neighbour = recovery.past_retention(tenant), gear.aged(recovery.past_retention(tenant), retention_until=-60)
    storage.shared_run_storage().put(prefix(run) + "artifacts/page.md", b"# page", content_type="text/markdown")
    assert objects(run) == 2
    report = recovery.run_loop(retention.expire_runs)
    assert (report.seen, report.changed, report.errors) == (1, 1, 0)
    assert report.detail == {"expired": 1, "objects deleted": 2}
    stone = gear.row(run.run_id)
    assert (stone.status, stone.money_state, stone.actual_cost_usd_micros) == ("EXPIRED", "SETTLED", 50_000)
    assert (stone.intent_status, stone.finalize_stage) == ("COMPLETED", "COMMITTED")
    assert (stone.idempotency_key, stone.result_bucket, stone.result_key, stone.result_sha256) == (None,) * 4
    assert (objects(run), objects(neighbour)) == (0, 1)
    assert not RunInputs.objects.filter(run_id=run.run_id).exists()
    assert list(RunHistory.objects.filter(run_id=run.run_id).values_list("actor", flat=True)) == ["retention"]
    assert gear.row(neighbour.run_id).status == "COMPLETED"
    assert recovery.charges(run) == [-50_000]
    recovery.law_holds(tenant)


def within_retention(tenant: Tenant) -> Run:
    return gear.aged(recovery.past_retention(tenant), retention_until=-5)


@pytest.mark.parametrize(
    "kept",
    [
        within_retention,
        lambda tenant: gear.aged(recovery.queued(tenant), retention_until=60),
        lambda tenant: gear.aged(recovery.at_work(tenant), retention_until=60),
        lambda tenant: gear.aged(recovery.worker_claimed(tenant), retention_until=60),
    ],
    ids=["within retention", "queued", "at work", "claimed"],
)
def test_dpp_23_what_is_younger_or_has_not_ended_is_not_touched(kept: Callable[[Tenant], Run], tenant: Tenant) -> None:
    run = kept(tenant)
    before = gear.everything(run.run_id), objects(run)
    assert expire() == (0, 0, 0)
    assert (gear.everything(run.run_id), objects(run)) == before


def test_dpp_23_while_s3_is_away_nothing_expires_and_letters_still_go(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recovery.past_retention(tenant)
    old_letter()
    before = gear.everything(run.run_id)

    def away(_self: Any, _prefix: str) -> int:
        raise EndpointConnectionError(endpoint_url="s3")

    with monkeypatch.context() as patch:
        patch.setattr(storage.RunStorage, "delete_prefix", away)
        report = recovery.run_loop(retention.expire_runs)
    assert (report.seen, report.changed, report.errors) == (2, 1, 0)
    assert report.detail == {"waiting": 1, "waits_for": "S3"}
    assert (gear.everything(run.run_id), DeadLetter.objects.count()) == (before, 0)
    assert expire() == (1, 1, 0)
    assert objects(run) == 0


def test_dpp_23_a_death_between_deleting_and_expiring_is_made_good_by_the_next_pass(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recovery.past_retention(tenant)

    def die(**_: object) -> None:
        raise recovery.Died

    with monkeypatch.context() as patch:
        patch.setattr(transitions, "expire", die)
        with pytest.raises(recovery.Died):
            expire()
    assert (gear.row(run.run_id).status, objects(run)) == ("COMPLETED", 0)
    assert expire() == (1, 1, 0)
    assert gear.row(run.run_id).status == "EXPIRED"


@pytest.mark.parametrize("age_days", [396, 366], ids=["after its retention", "its data deleted at once"])
def test_dpp_23_a_tombstone_stands_a_year_and_the_ledger_for_ever(tenant: Tenant, age_days: int) -> None:
    young, old = recovery.past_retention(tenant), recovery.past_retention(tenant)
    assert expire() == (2, 2, 0)
    gear.aged(young, retention_until=YEAR_SECONDS - 2 * 86_400)
    gear.aged(old, retention_until=YEAR_SECONDS)
    assert expire() == (1, 1, 0)
    assert [Run.objects.filter(run_id=run.run_id).exists() for run in (young, old)] == [True, False]
    assert not RunHistory.objects.filter(run_id=old.run_id).exists()
    assert recovery.charges(old) == [-50_000]
    with transaction.atomic(), connection.cursor() as cursor:  # the charge is as old as its run
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            "UPDATE ledger_entries SET created_at = now() - make_interval(days => %s), spend_day = spend_day - %s"
            " WHERE run_id = %s",
            [age_days, age_days, old.pk],
        )
    recovery.law_holds(tenant)


@pytest.mark.contract("HRD-06")
def test_hrd_06_a_run_that_was_forgotten_is_no_commit_that_was_lost(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where little is sold the thousand newest commits reach back beyond the year that a tombstone stands."""
    made = run_ids.first_run_id_at(clock.now() - timedelta(days=396))
    with monkeypatch.context() as then:
        then.setattr(run_ids, "new_run_id", lambda: made)
        old = recovery.past_retention(tenant)
    client = scripts.shared_scripts().client
    client.lpush(keys.EVIDENCE, f"run:{old.run_id}")  # as the mapping of its key does
    assert expire() == (1, 1, 0)
    gear.aged(old, retention_until=YEAR_SECONDS)
    assert expire() == (1, 1, 0)
    assert not Run.objects.filter(run_id=old.run_id).exists()
    assert {f"run:{old.run_id}", f"end:{old.run_id}"} <= set(evidence.heard_commits(client))
    assert evidence.lost_commits(client) == []
    assert driver.money_is_closed() is False


def test_dpp_23_a_disputed_run_expires_in_dispute_and_its_tombstone_stays_until_resolved(tenant: Tenant) -> None:
    run = recovery.past_retention(tenant)
    assert isinstance(disputes.open_dispute(run_id=run.run_id, reason="wrong page", actor="test"), Run)
    assert expire() == (1, 1, 0)
    assert (gear.row(run.run_id).status, gear.row(run.run_id).money_state) == ("EXPIRED", "DISPUTED")
    gear.aged(run, retention_until=YEAR_SECONDS)
    assert expire() == (0, 0, 0)
    assert isinstance(disputes.uphold_dispute(run_id=run.run_id, reason="it was right", actor="test"), Run)
    assert expire() == (1, 1, 0)
    assert not Run.objects.filter(run_id=run.run_id).exists()


def old_letter(*, days: int = 31) -> DeadLetter:
    letter = DeadLetter.objects.create(
        message_id=f"letter of {days} days", outcome="POISON", raw=b"x", size_bytes=1, sha256="0" * 64, receives=3
    )
    DeadLetter.objects.filter(pk=letter.pk).update(stored_at=Now() - timedelta(days=days))
    return letter


@pytest.mark.contract("DPP-45")
def test_dpp_45_letters_are_kept_for_their_period(tenant: Tenant) -> None:
    kept, _gone = old_letter(days=29), old_letter(days=31)
    assert periods.days_of("dead_letters") == 30
    assert expire() == (1, 1, 0)
    assert list(DeadLetter.objects.values_list("pk", flat=True)) == [kept.pk]


@pytest.mark.contract("DPP-45")
def test_dpp_45_a_host_whose_clock_is_ahead_deletes_no_young_letter(tenant: Tenant) -> None:
    kept = old_letter(days=29)
    ahead = clock.now() + timedelta(days=40)
    assert retention.preview_expiring_runs(now=ahead, limit=100).changed == 0
    assert retention.expire_runs(now=ahead, limit=100).changed == 0
    assert DeadLetter.objects.get().pk == kept.pk


def test_dpp_23_the_machines_own_clock_expires_no_run(clock: FixedClock, tenant: Tenant) -> None:
    run = within_retention(tenant)
    clock.advance(seconds=YEAR_SECONDS)
    assert expire() == (0, 0, 0)
    assert gear.row(run.run_id).status == "COMPLETED"
