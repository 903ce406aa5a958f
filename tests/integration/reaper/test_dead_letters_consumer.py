"""Every dead letter is stored; a run still queued is sent once more, and then ended and refunded (DPP-45)."""

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.db.models import QuerySet

from dpp_project import constants
from dpp_project.aws import clients, queue_depth, receipt_handles
from dpp_project.aws.sqs_sender import Unreachable
from dpp_project.jobs import registry
from dpp_project.settings import ENV
from reaper import claim_reconciler, dead_letters, requeuer
from reaper.models import RAW_BYTES_MAX, DeadLetter
from runs import transitions
from runs.finish import finalization
from runs.models import Run
from runs.submit import wake_worker
from runs.submit.wake_worker import Wakeup
from tenants.models import Tenant
from tests.gear.builders import beat, recovery
from tests.gear.builders import runs as gear

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-45")]


MINUTES = timedelta(minutes=3)


def dies(run: Run) -> str:
    """Its message lies in the dead-letter queue; the message's id."""
    return dead(Wakeup.of(run).message().body)


def dead(body: str) -> str:
    return clients.sqs_client().send_message(QueueUrl=ENV.DPP_DLQ_URL, MessageBody=body)["MessageId"]


def consume(*, limit: int = 100) -> tuple[int, int, int]:
    report = recovery.run_loop(dead_letters.consume_dead_letters, limit=limit)
    return report.seen, report.changed, report.errors


def outcomes(run: Run) -> list[str]:
    return list(DeadLetter.objects.filter(run_id=run.run_id).order_by("pk").values_list("outcome", flat=True))


def waiting(url: str) -> int:
    return sum(queue_depth.queue_depth_of(url))


def test_dpp_45_the_first_letter_of_a_queued_run_sends_it_once_more(tenant: Tenant) -> None:
    run = gear.aged(recovery.queued(tenant), next_send_at=1)
    message_id = dies(run)
    assert consume() == (1, 1, 0)
    letter = DeadLetter.objects.get(message_id=message_id)
    assert (letter.outcome, letter.run_id, letter.tenant_id) == ("REQUEUED", run.run_id, tenant.tenant_id)
    assert (letter.trace_id, letter.raw, letter.sent_at is not None) == (run.trace_id, None, True)
    assert (waiting(ENV.DPP_QUEUE_URL), waiting(ENV.DPP_DLQ_URL)) == (1, 0)
    after = gear.row(run.run_id)
    assert (after.status, after.version, after.dead_lettered_at is not None) == ("QUEUED", run.version, True)
    assert recovery.run_loop(requeuer.requeue_runs).seen == 0
    gear.won(transitions.start(run_id=run.run_id, version=run.version, lease_token="lease", actor="worker"))


def test_dpp_45_the_second_letter_ends_the_run_and_everything_goes_back(tenant: Tenant) -> None:
    run = recovery.queued(tenant)
    dies(run)
    consume()
    dies(run)
    assert consume() == (1, 1, 0)
    ended = gear.row(run.run_id)
    assert (ended.status, ended.money_state, ended.actual_cost_usd_micros) == ("FAILED", "REFUNDED", 0)
    assert ended.last_error_reason_code == "DEAD_LETTERED"
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS
    dies(run)
    assert consume() == (1, 1, 0)
    assert outcomes(run) == ["REFUNDED"]
    assert DeadLetter.objects.get().letters == 3
    assert waiting(ENV.DPP_QUEUE_URL) == 1
    recovery.law_holds(tenant)


@pytest.mark.contract("HRD-08")
def test_dpp_45_a_second_message_of_a_run_that_died_too_does_not_end_it(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were sent before the first died: the run is sent once more, and the second letter says nothing of that."""
    run = recovery.queued(tenant)
    dies(run)
    consume()
    marked = gear.row(run.run_id)
    assert marked.dead_lettered_at is not None
    body = Wakeup.of(run).message().body
    monkeypatch.setattr(
        dead_letters, "_received_dead_letters", redelivers(body, sent_at=marked.dead_lettered_at - MINUTES)
    )
    assert consume() == (1, 1, 0)
    assert (outcomes(run), DeadLetter.objects.get().letters) == (["REQUEUED"], 2)
    assert gear.row(run.run_id).status == "QUEUED"
    assert recovery.held_micros(tenant) == {str(run.run_id): gear.RESERVED_MICROS}
    monkeypatch.setattr(
        dead_letters,
        "_received_dead_letters",
        redelivers(body, sent_at=marked.dead_lettered_at, message_id="the requeue's"),
    )
    assert consume() == (1, 1, 0)
    assert (outcomes(run), DeadLetter.objects.get().letters) == (["REFUNDED"], 3)
    assert gear.row(run.run_id).last_error_reason_code == "DEAD_LETTERED"
    recovery.law_holds(tenant)


@pytest.mark.contract("HRD-08")
def test_dpp_45_two_consumers_with_two_letters_of_one_run_decide_in_turn(tenant: Tenant) -> None:
    runs = [recovery.queued(tenant) for _ in range(6)]
    for run in runs * 2:
        dies(run)
    recovery.at_once(*[consume] * 2)
    assert [outcomes(run) for run in runs] == [["REFUNDED"]] * 6
    assert set(DeadLetter.objects.values_list("letters", flat=True)) == {2}
    recovery.law_holds(tenant)


def test_dpp_45_a_letter_that_the_release_before_stored_is_met_again(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recovery.queued(tenant)
    monkeypatch.setattr(dead_letters, "_received_dead_letters", redelivers(Wakeup.of(run).message().body))
    assert consume() == (1, 1, 0)
    DeadLetter.objects.update(of_run=None)
    monkeypatch.setattr(dead_letters, "_received_dead_letters", redelivers(Wakeup.of(run).message().body))
    assert consume() == (1, 1, 0)
    assert outcomes(run) == ["REQUEUED"]


def canceled_while_queued(tenant: Tenant) -> Run:
    run = recovery.queued(tenant)
    gear.won(transitions.claim_canceled(run=run, intent=gear.REFUND, actor="api"))
    return gear.row(run.run_id)


@pytest.mark.parametrize(
    "kept",
    [
        recovery.at_work,
        recovery.lease_ran_out,
        canceled_while_queued,
        recovery.left_claimed,
        recovery.abandoned,
        recovery.past_retention,
    ],
    ids=lambda make: make.__name__,
)
def test_dpp_45_letters_of_started_or_ended_runs_are_only_stored(kept: Callable[[Tenant], Run], tenant: Tenant) -> None:
    run = kept(tenant)
    before = gear.everything(run.run_id), recovery.held_micros(tenant), recovery.balance_micros(tenant)
    for _ in range(2):
        dies(run)
    assert consume() == (2, 2, 0)
    assert (gear.everything(run.run_id), recovery.held_micros(tenant), recovery.balance_micros(tenant)) == before
    assert (outcomes(run), DeadLetter.objects.get().letters) == (["KEPT"], 2)
    assert waiting(ENV.DPP_QUEUE_URL) == waiting(ENV.DPP_DLQ_URL) == 0


def test_dpp_45_a_letter_of_no_run_is_stored(tenant: Tenant) -> None:
    dead(Wakeup(run_id=uuid.uuid4(), tenant_id="t_gone", pack_type="ocr", trace_id=None).message().body)
    assert consume() == (1, 1, 0)
    letter = DeadLetter.objects.get()
    assert (letter.outcome, letter.tenant_id, letter.trace_id) == ("KEPT", "t_gone", "")


@pytest.mark.contract("DPP-38")
def test_dpp_38_poison_is_stored_bounded_and_leaves_the_queue(tenant: Tenant) -> None:
    dead("not a message of ours")
    dead("x" * 100_000)
    assert consume() == (2, 2, 0)
    small, large = DeadLetter.objects.order_by("size_bytes")
    assert (small.outcome, bytes(small.raw or b""), small.is_whole) == ("POISON", b"not a message of ours", True)
    assert (large.outcome, len(large.raw or b""), large.size_bytes, large.is_whole) == (
        "POISON", RAW_BYTES_MAX, 100_000, False
    )  # fmt: skip
    assert waiting(ENV.DPP_DLQ_URL) == 0


@pytest.mark.contract("DPP-38")
def test_dpp_38_three_receives_bring_a_message_here_and_its_run_is_sent_once_more(tenant: Tenant) -> None:
    run = recovery.queued(tenant)
    wake_worker.send_wakeup(Wakeup.of(run))
    sqs = clients.sqs_client()
    for _ in range(constants.QUEUE_MAX_RECEIVES):
        (message,) = sqs.receive_message(QueueUrl=ENV.DPP_QUEUE_URL, VisibilityTimeout=60)["Messages"]
        sqs.change_message_visibility(
            QueueUrl=ENV.DPP_QUEUE_URL, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
        )
    assert "Messages" not in sqs.receive_message(QueueUrl=ENV.DPP_QUEUE_URL)
    assert consume() == (1, 1, 0)
    assert outcomes(run) == ["REQUEUED"]
    assert waiting(ENV.DPP_QUEUE_URL) == 1


# Deaths and outages.


@pytest.mark.parametrize("dies_at", ["the sending", "the deletion"])
def test_dpp_45_a_consumer_that_dies_leaves_the_first_letter_a_first_letter(
    dies_at: str, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recovery.queued(tenant)
    body = Wakeup.of(run).message().body
    monkeypatch.setattr(dead_letters, "_received_dead_letters", redelivers(body))

    def die(*_: object) -> None:
        raise recovery.Died

    with monkeypatch.context() as patch:
        if dies_at == "the sending":
            patch.setattr(wake_worker, "send_wakeup", die)
        else:
            patch.setattr(receipt_handles, "delete_receipts", die)
        with pytest.raises(recovery.Died):
            consume()
    assert waiting(ENV.DPP_QUEUE_URL) == (0 if dies_at == "the sending" else 1)
    monkeypatch.setattr(dead_letters, "_received_dead_letters", redelivers(body))
    assert consume() == (1, 1, 0)
    assert outcomes(run) == ["REQUEUED"]
    assert waiting(ENV.DPP_QUEUE_URL) == (1 if dies_at == "the sending" else 2)
    assert gear.row(run.run_id).status == "QUEUED"
    assert recovery.held_micros(tenant) == {str(run.run_id): gear.RESERVED_MICROS}


def redelivers(
    body: str, *, sent_at: datetime | None = None, message_id: str = "the-same-message"
) -> Callable[..., list[dict[str, Any]]]:
    """The queue, giving one message again under its own id, as after a visibility timeout."""
    sent = {} if sent_at is None else {"SentTimestamp": str(int(sent_at.timestamp() * 1_000))}
    left = [{"MessageId": message_id, "ReceiptHandle": "unknown", "Body": body, "Attributes": sent}]
    return lambda _count, *, wait_seconds: [left.pop()] if left and wait_seconds >= 0 else []


def test_dpp_45_a_consumer_that_dies_after_its_claim_leaves_it_to_the_reconciler(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recovery.queued(tenant)
    gear.won(transitions.mark_dead_lettered(run_id=run.run_id))
    body = Wakeup.of(run).message().body

    def die(*_: object, **__: object) -> None:
        raise recovery.Died

    monkeypatch.setattr(dead_letters, "_received_dead_letters", redelivers(body))
    with monkeypatch.context() as patch:
        patch.setattr(finalization, "finish_claim", die)
        with pytest.raises(recovery.Died):
            consume()
    monkeypatch.setattr(dead_letters, "_received_dead_letters", redelivers(body))
    assert consume() == (1, 1, 0)
    assert (gear.row(run.run_id).finalize_stage, outcomes(run)) == ("CLAIMED", ["REFUNDED"])
    recovery.minutes_pass(run)
    assert recovery.run_loop(claim_reconciler.reconcile_claims).changed == 1
    assert gear.row(run.run_id).last_error_reason_code == "DEAD_LETTERED"
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS


@pytest.mark.contract("DPP-39")
def test_dpp_39_a_letter_that_cannot_be_sent_stays_in_the_queue(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = recovery.queued(tenant), recovery.at_work(tenant)
    dies(run)
    dies(other)

    def refuse(_wakeup: Wakeup) -> None:
        raise Unreachable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(wake_worker, "send_wakeup", refuse)
        assert consume() == (2, 1, 1)
    assert waiting(ENV.DPP_DLQ_URL) == 1
    assert (outcomes(run), outcomes(other)) == (["REQUEUED"], ["KEPT"])


@pytest.mark.contract("DPP-39")
def test_dpp_39_a_letter_that_cannot_be_stored_stays_in_the_queue_untouched(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recovery.queued(tenant)
    before = gear.everything(run.run_id)
    dies(run)

    def refuse(*_: object, **__: object) -> None:
        raise DatabaseError

    with monkeypatch.context() as patch:
        patch.setattr(QuerySet, "get_or_create", refuse)
        assert consume() == (1, 0, 1)
    assert (waiting(ENV.DPP_DLQ_URL), gear.everything(run.run_id)) == (1, before)
    assert not DeadLetter.objects.exists()


def test_dpp_45_two_consumers_share_the_queue(tenant: Tenant) -> None:
    runs = [recovery.queued(tenant) for _ in range(12)]
    for run in runs:
        dies(run)
    recovery.at_once(*[consume] * 2)
    assert [outcomes(run) for run in runs] == [["REQUEUED"]] * 12
    assert (waiting(ENV.DPP_QUEUE_URL), waiting(ENV.DPP_DLQ_URL)) == (12, 0)


def test_dpp_45_two_consumers_that_meet_one_letter_decide_once(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recovery.queued(tenant)
    body = Wakeup.of(run).message().body
    message = {"MessageId": "the-same-message", "ReceiptHandle": "unknown", "Body": body, "Attributes": {}}
    given: list[int] = []

    def both(_count: int, *, wait_seconds: int) -> list[dict[str, Any]]:
        given.append(wait_seconds)
        return [message] if wait_seconds else []

    monkeypatch.setattr(dead_letters, "_received_dead_letters", both)
    recovery.at_once(*[consume] * 2)
    assert outcomes(run) == ["REQUEUED"]
    assert gear.row(run.run_id).status == "QUEUED"
    assert len(given) == 4


def test_dpp_45_a_pass_takes_no_more_than_its_limit_and_a_dry_run_nothing(tenant: Tenant) -> None:
    for _ in range(12):
        dead("poison")
    preview = registry.job_named("dead_letters").preview
    assert preview is not None
    report = recovery.run_loop(preview)
    assert (report.seen, report.changed, DeadLetter.objects.count()) == (12, 12, 0)
    assert consume(limit=11) == (11, 11, 0)
    assert consume() == (1, 1, 0)
    assert list(beat.seconds_of("dead_letters", until=180)) == [0, 60, 120, 180]
