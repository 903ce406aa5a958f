"""What a process may be doing when it dies, how everybody recovers afterwards, and what must be true at the end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest
from django.db.models.functions import Now

from budget import entries, services
from budget.models import LedgerEntry, PendingCredit
from budget.rebuild import gate_watch
from dpp_project.aws import clients, queue_depth, receipt_handles
from dpp_project.settings import ENV
from dpp_project.stores import redis
from reaper import (
    claim_reconciler,
    dead_letters,
    hold_auditor,
    lease_reaper,
    message_parser,
    requeuer,
    reservation_sweeper,
)
from runs import transitions, turns
from runs.box.outcomes import Done
from runs.bucket import storage
from runs.cancel import cancellation
from runs.claims import counted_of
from runs.intents import FREES_ITS_KEY
from runs.models import Run, RunHistory
from runs.states import Stage, Status
from runs.submit import wake_worker
from runs.submit.wake_worker import Wakeup
from runs.worker import execution
from runs.worker.leases import WakingMessage
from tenants import authentication
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import Shop, a_request_key

ROUNDS: Final = 6


class InstantBox:
    """A pack that is done at once: what is tested here happens around it."""

    def start(self, *_: object, **__: object) -> "InstantBox":
        return self

    def wait(self) -> Done:
        return Done(data={"answer": 1}, artifacts=(), spent_micros=gear.ACTUAL_MICROS, tokens=1)

    def stop(self) -> None:
        """Too quick to be stopped."""


@dataclass
class Scene:
    """One shop, one key, and what was there before."""

    shop: Shop
    key: str
    run: Run | None = None
    before: set[UUID] = field(default_factory=set)

    @property
    def run_id(self) -> UUID:
        assert self.run is not None
        return self.run.run_id


@dataclass(frozen=True)
class Situation:
    """`prepare` brings the run to where the action begins; `act` is done by the process that dies."""

    name: str
    prepare: Callable[[Shop], Run | None]
    act: Callable[[Scene], Any]


def begin(situation: Situation, shop: Shop) -> Scene:
    authentication.memory.forget()  # or a child would know what its parent has learnt
    before = set(Run.objects.filter(tenant=shop.tenant).values_list("run_id", flat=True))
    return Scene(shop, a_request_key(), situation.prepare(shop), before)


# The actions.


def submit(scene: Scene) -> Any:
    response = scene.shop.submit(key=scene.key)
    return {"status": response.status_code, "run_id": response.json().get("run_id")}


def cancel(scene: Scene) -> Any:
    answer = cancellation.cancel_run(tenant_id=scene.shop.tenant.tenant_id, run_id=scene.run_id, actor="owner")
    return type(answer).__name__


def work(_scene: Scene | None = None) -> Any:
    """As a worker does: receive, execute, delete. What dies with a message in hand lets it be seen again at once."""
    ends = []
    while (
        messages := clients.sqs_client()
        .receive_message(QueueUrl=ENV.DPP_QUEUE_URL, MaxNumberOfMessages=10, VisibilityTimeout=0)
        .get("Messages", [])
    ):
        for message in messages:
            letter = message_parser.parse_message(message["Body"])
            assert letter is not None
            held = WakingMessage(queue_url=ENV.DPP_QUEUE_URL, receipt=message["ReceiptHandle"])
            ends.append(execution.execute_run(letter.run_id, message=held, in_turn=True).value)
            receipt_handles.delete_receipts(ENV.DPP_QUEUE_URL, [message["ReceiptHandle"]])
    return ends


def loop(run_once: Any) -> Callable[[Scene], Any]:
    return lambda _scene: recovery.run_loop(run_once).changed


def top_up(scene: Scene) -> Any:
    entered = entries.top_up(
        tenant_id=scene.shop.tenant.tenant_id, amount_micros=1_000, reference=scene.key, reason="", actor="test"
    )
    return type(entered).__name__


# Where the run stands when the action begins.


def nothing(_shop: Shop) -> None:
    return None


def queued_and_sent(shop: Shop) -> Run:
    run = probe(shop)
    wake_worker.send_wakeup(Wakeup.of(run))
    return run


def at_work(shop: Shop) -> Run:
    return recovery.at_work(shop.tenant, lineage_id=shop.issued.key.lineage_id)


def lease_ran_out(shop: Shop) -> Run:
    return recovery.lease_ran_out(shop.tenant)


def waited_an_hour(shop: Shop) -> Run:
    return gear.aged(probe(shop), created_at=3_601)


def abandoned(shop: Shop) -> Run:
    return recovery.abandoned(shop.tenant)


def unsent(shop: Shop) -> Run:
    return gear.aged(probe(shop), next_send_at=1)


def next_of_a_key(shop: Shop) -> Run:
    """The first of a concurrency key has its permit in the queue; the second is parked, and waits to be woken."""
    first, second = (probe(shop, concurrency_key="the-key", fair_pass=number) for number in (1, 2))
    turns.park_run(second.run_id)
    wake_worker.send_wakeup(Wakeup.of(first))
    return first


def at_work_under_a_key(shop: Shop) -> Run:
    first, second = (probe(shop, concurrency_key="the-key", fair_pass=number) for number in (1, 2))
    gear.won(transitions.start(run_id=first.run_id, version=first.version, lease_token="a-token", actor="worker"))
    turns.park_run(second.run_id)
    return gear.row(first.run_id)


def probe(shop: Shop, **values: Any) -> Run:
    """Of the shop's key: what it costs counts under the key's caps as well."""
    return recovery.queued(
        shop.tenant,
        pack_type="probe",
        inputs={"sleep_ms": 1},
        timebox_sec=20,
        lineage_id=shop.issued.key.lineage_id,
        **values,
    )


def left_claimed(shop: Shop) -> Run:
    return recovery.left_claimed(shop.tenant)


def left_settled(shop: Shop) -> Run:
    run = recovery.left_claimed(shop.tenant)
    services.settle(
        tenant_id=run.tenant_id,
        run_id=str(run.run_id),
        charge_micros=gear.ACTUAL_MICROS,
        counted=counted_of(run),
    )
    return run


def settled_and_result_lost(shop: Shop) -> Run:
    run = left_settled(shop)
    storage.shared_run_storage().delete_prefix(str(run.result_key))
    return run


def died_once(shop: Shop) -> Run:
    run = probe(shop)
    clients.sqs_client().send_message(QueueUrl=ENV.DPP_DLQ_URL, MessageBody=Wakeup.of(run).message().body)
    return run


def died_twice(shop: Shop) -> Run:
    run = died_once(shop)
    gear.won(transitions.mark_dead_lettered(run_id=run.run_id))
    return run


SITUATIONS: Final = (
    Situation("submit", nothing, submit),
    Situation("worker", queued_and_sent, work),
    Situation("worker of a key", next_of_a_key, work),
    Situation("cancel at work under a key", at_work_under_a_key, cancel),
    Situation("cancel while queued", queued_and_sent, cancel),
    Situation("cancel at work", at_work, cancel),
    Situation("reaper", lease_ran_out, loop(lease_reaper.reap_leases)),
    Situation("sweeper", waited_an_hour, loop(reservation_sweeper.sweep_reservations)),
    Situation("reconciler", left_claimed, loop(claim_reconciler.reconcile_claims)),
    Situation("reconciler after a settle", left_settled, loop(claim_reconciler.reconcile_claims)),
    Situation("reconciler without the result", settled_and_result_lost, loop(claim_reconciler.reconcile_claims)),
    Situation("requeuer", unsent, loop(requeuer.requeue_runs)),
    Situation("auditor", abandoned, loop(hold_auditor.audit_holds)),
    Situation("first dead letter", died_once, loop(dead_letters.consume_dead_letters)),
    Situation("second dead letter", died_twice, loop(dead_letters.consume_dead_letters)),
    Situation("top-up", nothing, top_up),
)


# Everybody recovers: time passes by the database's clock, and each does what it finds due.


def _open(scene: Scene) -> Any:
    return Run.objects.filter(tenant=scene.shop.tenant).exclude(finalize_stage=Stage.COMMITTED)


def _ago(seconds: int) -> Any:
    return Now() - timedelta(seconds=seconds)


def _watch(_scene: Scene) -> None:
    gate_watch.watch_gates(limit=10)
    entries.replay_pending(limit=100, older_than=timedelta())


def _work(_scene: Scene) -> None:
    work()


def _reap(scene: Scene) -> None:
    _open(scene).filter(status=Status.PROCESSING, finalize_stage=None).update(lease_expires_at=_ago(1))
    recovery.run_loop(lease_reaper.reap_leases)


def _reconcile(scene: Scene) -> None:
    _open(scene).filter(finalize_stage=Stage.CLAIMED).update(finalize_claimed_at=_ago(301))
    recovery.run_loop(claim_reconciler.reconcile_claims)


def _requeue(scene: Scene) -> None:
    _open(scene).filter(next_send_at__isnull=False).update(next_send_at=_ago(901))
    recovery.run_loop(requeuer.requeue_runs)


def _audit(scene: Scene) -> None:
    _open(scene).update(updated_at=_ago(61))
    recovery.run_loop(hold_auditor.audit_holds)


def _read_letters(_scene: Scene) -> None:
    if any(queue_depth.queue_depth_of(ENV.DPP_DLQ_URL)):
        recovery.run_loop(dead_letters.consume_dead_letters)


def _an_hour_passes(scene: Scene) -> None:
    _open(scene).update(created_at=_ago(3_601))
    recovery.run_loop(reservation_sweeper.sweep_reservations)


def _retry(scene: Scene) -> None:
    """The client asks again with its key; the lock of a handler that died has lapsed."""
    if scene.run is None:
        redis.redis_client().delete(f"idem_lock:{scene.shop.tenant.tenant_id}:{scene.key}")
        scene.shop.submit(key=scene.key)


Recover = Callable[[Scene], None]
ORDERS: Final[tuple[Sequence[Recover], ...]] = (
    (_watch, _retry, _work, _reap, _reconcile, _requeue, _audit, _read_letters),
    (_reap, _reconcile, _audit, _watch, _work, _read_letters, _requeue),
    (_audit, _requeue, _read_letters, _work, _retry, _reconcile, _reap, _watch),
    (_an_hour_passes, _work, _audit, _reconcile, _retry, _watch, _reap, _requeue, _read_letters),
    (_requeue, _work, _an_hour_passes, _reap, _watch, _audit, _reconcile, _read_letters),
    (_read_letters, _requeue, _requeue, _work, _work, _reap, _watch, _reconcile, _audit),
)


def recover(scene: Scene, order: Sequence[Recover]) -> None:
    """Rounds until nothing is open; a run that still is after so many is stuck."""
    for _ in range(ROUNDS):
        for someone in order:
            someone(scene)
        if not _open(scene).exists() and not PendingCredit.objects.filter(tenant=scene.shop.tenant).exists():
            return
    raise AssertionError(f"stuck: {list(_open(scene).values('run_id', 'status', 'money_state', 'finalize_stage'))}")


# What must be true.


def holds_true(scene: Scene, answer: Any) -> None:
    """Each run ended once and was charged once, no hold is left, and every micro is accounted for."""
    made = list(Run.objects.filter(tenant=scene.shop.tenant).exclude(run_id__in=scene.before))
    for run in made:
        commits = RunHistory.objects.filter(run_id=run.run_id, stage=Stage.COMMITTED).count()
        assert (run.finalize_stage, commits) == (Stage.COMMITTED, 1), run
        entries = list(LedgerEntry.objects.filter(run_id=run.run_id).values_list("kind", "amount_usd_micros"))
        assert sum(kind == "CHARGE" for kind, _ in entries) <= 1, entries
        assert -sum(micros for _, micros in entries) == run.actual_cost_usd_micros, (run.status, entries)
    assert recovery.held_micros(scene.shop.tenant) == {}
    recovery.law_holds(scene.shop.tenant)
    if isinstance(answer, dict) and answer.get("status") == 202:
        (accepted,) = [run for run in made if str(run.run_id) == answer["run_id"]]
        assert accepted.last_error_reason_code not in FREES_ITS_KEY
    _key_is_one_runs(scene, made)


def _key_is_one_runs(scene: Scene, made: list[Run]) -> None:
    """Asked once more, the key answers the run it stands for; one that ended unsubmitted has freed it."""
    if scene.run is not None or not made:
        return
    kept = [run for run in made if run.idempotency_key == scene.key]
    assert len(kept) <= 1
    freed = [run for run in made if run.idempotency_key is None]
    assert all(run.last_error_reason_code in FREES_ITS_KEY for run in freed)
    if kept:
        redis.redis_client().delete(f"idem_lock:{scene.shop.tenant.tenant_id}:{scene.key}")
        again = scene.shop.submit(key=scene.key)
        assert (again.status_code, again.json()["run_id"]) == (202, str(kept[0].run_id))


@pytest.fixture
def quick_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A letter whose consumer died is visible again at once, and nobody waits for one that is not there."""
    monkeypatch.setattr(dead_letters, "VISIBILITY_SECONDS", 0)
    monkeypatch.setattr(dead_letters, "WAIT_SECONDS", 0)
    box = InstantBox()
    monkeypatch.setattr(execution, "box", lambda: box)
