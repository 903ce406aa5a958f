"""A message that may be lost is sent again; a mere backlog is not (DPP-43)."""

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F, Q
from django.db.models.functions import Now

from dpp_project.aws import clients, sqs_sender
from dpp_project.aws.sqs_sender import Unreachable
from dpp_project.jobs import registry, runner
from dpp_project.settings import ENV
from reaper import requeuer
from reaper.models import DeadLetter
from runs import transitions, turns
from runs.models import Run
from runs.submit import wake_worker
from tenants.models import Tenant
from tests.gear.builders import beat, recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.queues import Queues
from tests.gear.builders.turns import KEY, in_line, stands, start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-43")]


def messages() -> list[dict[str, Any]]:
    """The kwargs of every message in the queue; they are gone from it afterwards."""
    found: list[dict[str, Any]] = []
    while (
        some := clients.sqs_client().receive_message(QueueUrl=ENV.DPP_QUEUE_URL, MaxNumberOfMessages=10).get("Messages")
    ):
        for message in some:
            document = json.loads(base64.b64decode(message["Body"]))
            found.append(json.loads(base64.b64decode(document["body"]))[1])
            clients.sqs_client().delete_message(QueueUrl=ENV.DPP_QUEUE_URL, ReceiptHandle=message["ReceiptHandle"])
    return found


def due_in(run: Run, *, seconds: int) -> bool:
    """By the database's clock, give or take ten seconds."""
    soon = Now() + timedelta(seconds=seconds - 10)
    late = Now() + timedelta(seconds=seconds + 10)
    return Run.objects.filter(Q(next_send_at__gt=soon, next_send_at__lt=late), run_id=run.run_id).exists()


def test_dpp_43_a_due_run_is_sent_again_and_its_version_stays(tenant: Tenant) -> None:
    run = recovery.unsent(tenant)
    report = recovery.run_loop(requeuer.requeue_runs)
    assert (report.seen, report.changed, report.errors) == (1, 1, 0)
    (kwargs,) = messages()
    assert set(kwargs) == {"run_id", "tenant_id", "pack_type", "enqueued_at", "schema_version"}
    assert (kwargs["run_id"], kwargs["tenant_id"]) == (str(run.run_id), tenant.tenant_id)
    after = gear.row(run.run_id)
    assert (after.version, after.send_count, after.status) == (run.version, 1, "QUEUED")
    gear.won(transitions.start(run_id=run.run_id, version=run.version, lease_token="lease", actor="worker"))


def test_dpp_43_the_first_is_due_150_s_after_the_hold_then_after_5_10_and_20_minutes(tenant: Tenant) -> None:
    run = recovery.queued(tenant)
    assert due_in(run, seconds=150)
    for seconds in (300, 600, 1_200, 1_200):
        gear.aged(run, next_send_at=1)
        recovery.empty_queues()
        assert recovery.run_loop(requeuer.requeue_runs).changed == 1
        assert due_in(run, seconds=seconds)


def not_due(tenant: Tenant) -> Run:
    return gear.aged(recovery.queued(tenant), next_send_at=-5)


def started(tenant: Tenant) -> Run:
    return gear.aged(recovery.at_work(tenant), next_send_at=600)


def claimed_while_queued(tenant: Tenant) -> Run:
    run = recovery.unsent(tenant)
    gear.won(transitions.claim_canceled(run=run, intent=gear.REFUND, actor="api"))
    return gear.row(run.run_id)


def dead_lettered(tenant: Tenant) -> Run:
    run = recovery.unsent(tenant)
    gear.won(transitions.mark_dead_lettered(run_id=run.run_id))
    return gear.row(run.run_id)


def ended(tenant: Tenant) -> Run:
    return gear.aged(recovery.past_retention(tenant), next_send_at=600)


@pytest.mark.parametrize(
    "kept",
    [not_due, started, claimed_while_queued, dead_lettered, ended, recovery.abandoned],
    ids=lambda make: make.__name__,
)
def test_dpp_43_what_needs_no_message_gets_none(kept: Callable[[Tenant], Run], tenant: Tenant) -> None:
    run = kept(tenant)
    before = gear.everything(run.run_id)
    assert recovery.run_loop(requeuer.requeue_runs).seen == 0
    assert (gear.everything(run.run_id), messages()) == (before, [])


def test_dpp_43_a_backlog_is_not_sent_again_unless_15_minutes_late(tenant: Tenant) -> None:
    late = gear.aged(recovery.queued(tenant), next_send_at=901)
    merely_due = [gear.aged(recovery.queued(tenant), next_send_at=890) for _ in range(2)]
    for _ in range(3):
        sqs_sender.shared_sender().send(sqs_sender.QueueMessage("a message that waits"))
    report = recovery.run_loop(requeuer.requeue_runs)
    assert (report.seen, report.changed) == (1, 1)
    assert gear.row(late.run_id).send_count == 1
    assert [gear.row(run.run_id).send_count for run in merely_due] == [0, 0]


def test_dpp_43_one_message_too_few_and_all_due_are_sent(tenant: Tenant) -> None:
    runs = [recovery.unsent(tenant) for _ in range(3)]
    for _ in range(2):
        sqs_sender.shared_sender().send(sqs_sender.QueueMessage("a message that waits"))
    assert recovery.run_loop(requeuer.requeue_runs).changed == 3
    assert [gear.row(run.run_id).send_count for run in runs] == [1, 1, 1]


@pytest.mark.contract("DPP-39")
def test_dpp_39_while_sqs_is_away_rows_keep_and_the_job_says_so(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recovery.unsent(tenant)
    before = gear.everything(run.run_id)
    gone = clients.new_sqs(read_timeout_seconds=0.2, attempts=1)
    gone.meta.events.register("before-send.sqs.*", _refused)
    with monkeypatch.context() as patch:
        patch.setattr(clients, "sqs_client", lambda: gone)
        assert runner.run_job_pass(registry.job_named("requeuer")).outcome is runner.PassOutcome.FAILED
    assert gear.everything(run.run_id) == before
    assert recovery.run_loop(requeuer.requeue_runs).changed == 1


def _refused(**_: object) -> None:
    raise ConnectionRefusedError


def test_dpp_43_a_queue_that_takes_nothing_postpones_ten_rows_and_no_more(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [recovery.unsent(tenant) for _ in range(13)]

    def refuse(wakeups: list[wake_worker.Wakeup]) -> dict[Any, Any]:
        return {wakeup.run_id: Unreachable("no answer") for wakeup in wakeups}

    with monkeypatch.context() as patch:
        patch.setattr(wake_worker, "send_wakeups", refuse)
        report = recovery.run_loop(requeuer.requeue_runs)
    assert (report.seen, report.changed, report.errors) == (10, 0, 10)
    assert sorted(gear.row(run.run_id).send_count for run in runs) == [0] * 3 + [1] * 10
    assert recovery.run_loop(requeuer.requeue_runs).changed == 3
    Run.objects.filter(send_count=1).update(next_send_at=F("next_send_at") - timedelta(seconds=301))
    recovery.empty_queues()
    assert recovery.run_loop(requeuer.requeue_runs).changed == 13


@pytest.mark.contract("HRD-08")
def test_dpp_43_one_message_that_is_refused_keeps_no_other_waiting(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [recovery.unsent(tenant) for _ in range(13)]

    def refuse_one(wakeups: list[wake_worker.Wakeup]) -> dict[Any, Any]:
        return {wakeup.run_id: Unreachable("no answer") for wakeup in wakeups if wakeup.run_id == runs[0].run_id}

    monkeypatch.setattr(wake_worker, "send_wakeups", refuse_one)
    report = recovery.run_loop(requeuer.requeue_runs)
    assert (report.seen, report.changed, report.errors) == (13, 12, 1)
    assert "waits_for" not in report.detail
    assert {gear.row(run.run_id).send_count for run in runs} == {1}


@pytest.mark.contract("DPP-46")
def test_dpp_46_one_lanes_queue_that_is_gone_keeps_no_run_of_the_other_waiting(tenant: Tenant, express: Queues) -> None:
    """Its own are sent once they are so late that no backlog explains it, and are skipped while it is gone."""
    held = [in_line(tenant, reserved_micros=1_000) for _ in range(6)]
    for run in held:
        gear.aged(run, next_send_at=1)
    late, due = (recovery.unsent(recovery.funded()) for _ in range(2))
    gear.aged(late, next_send_at=901)
    recovery.empty_queues()
    express.sqs.delete_queue(QueueUrl=express.express_url)
    report = recovery.run_loop(requeuer.requeue_runs)
    sent = [gear.row(run.run_id).send_count for run in held]
    assert (sent, gear.row(late.run_id).send_count, gear.row(due.run_id).send_count) == ([1] * 6, 1, 0)
    assert (report.changed, report.errors, "waits_for" in report.detail) == (6, 2, False)
    assert report.detail["depth of runs-express refused"] == 1
    assert len(messages()) == 6


@pytest.mark.contract("DPP-46")
def test_dpp_46_a_queue_that_takes_nothing_postpones_ten_of_its_runs_and_the_other_lane_is_sent(
    tenant: Tenant, express: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    del express
    quiet = [recovery.unsent(recovery.funded()) for _ in range(13)]
    held = [in_line(tenant, reserved_micros=1_000) for _ in range(6)]
    for run in held:
        gear.aged(run, next_send_at=1)
    recovery.empty_queues()
    send = wake_worker.send_wakeups

    def refuse_express(wakeups: list[wake_worker.Wakeup]) -> dict[Any, Any]:
        refused = {one.run_id: Unreachable("no") for one in wakeups if one.lane is wake_worker.Lane.EXPRESS}
        return refused | send([one for one in wakeups if one.run_id not in refused])

    monkeypatch.setattr(wake_worker, "send_wakeups", refuse_express)
    report = recovery.run_loop(requeuer.requeue_runs)
    assert [gear.row(run.run_id).send_count for run in held] == [1] * 6
    assert sorted(gear.row(run.run_id).send_count for run in quiet) == [0] * 3 + [1] * 10
    assert (report.changed, report.errors, "waits_for" in report.detail) == (6, 10, False)


def test_dpp_43_a_death_before_the_sending_leaves_the_run_due_again(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recovery.unsent(tenant)

    def die(_wakeups: object) -> None:
        raise recovery.Died

    with monkeypatch.context() as patch:
        patch.setattr(wake_worker, "send_wakeups", die)
        with pytest.raises(recovery.Died):
            recovery.run_loop(requeuer.requeue_runs)
    assert messages() == []
    assert due_in(run, seconds=300)
    gear.aged(run, next_send_at=1)
    assert recovery.run_loop(requeuer.requeue_runs).changed == 1
    assert len(messages()) == 1


def test_dpp_43_it_comes_each_minute_and_a_lost_message_is_sent_again_in_the_third(tenant: Tenant) -> None:
    assert list(beat.seconds_of("requeuer", until=180)) == [0, 60, 120, 180]
    run = recovery.queued(tenant)
    assert beat.age_after_passes("requeuer", run, until=messages, within=240) == 165
    assert gear.row(run.run_id).send_count == 1


@pytest.mark.contract("DPP-45", "DPP-98")
def test_dpp_45_a_letters_run_that_was_kept_back_and_woken_is_the_requeuers_again(tenant: Tenant) -> None:
    """Who wakes it may die before its message, or its message may start another: it waits in the line, like all."""
    first, dead = in_line(tenant, concurrency_key=KEY), in_line(tenant, concurrency_key=KEY)
    assert start(first.run_id) is not None
    a_letter_of(dead)
    gear.aged(dead, next_send_at=1)
    assert (stands(dead), recovery.run_loop(requeuer.requeue_runs).changed, messages()) == ("PARKED", 0, [])
    assert turns.back_in_line(dead.run_id, fair_pass=1)
    assert recovery.run_loop(requeuer.requeue_runs).changed == 1
    assert [kwargs["run_id"] for kwargs in messages()] == [str(dead.run_id)]
    assert due_in(dead, seconds=300)


def a_letter_of(run: Run) -> None:
    gear.won(transitions.mark_dead_lettered(run_id=run.run_id))
    DeadLetter.objects.create(
        message_id=str(run.run_id),
        of_run=run.run_id,
        run_id=run.run_id,
        outcome=DeadLetter.Outcome.REQUEUED,
        size_bytes=2,
        sha256="0" * 64,
        receives=3,
    )
