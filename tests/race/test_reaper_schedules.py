"""Worker, reaper, reconciler, cancel and sweeper over one run, at every effect, in every order (DPP-34, 37, 40 to 42).

The real code on a real Postgres and a real Redis. Times stand so that everybody may act at once: leases run out as they
are given, and a claim is old as it is made. The bucket is a dictionary that is held like the rest.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final

import pytest

from budget import entries, services
from budget.models import LedgerEntry
from reaper import claim_reconciler, lease_reaper, reservation_sweeper
from runs import timing, transitions
from runs.bucket import storage
from runs.bucket.storage import ObjectHead
from runs.cancel import cancellation
from runs.models import Run, RunHistory
from runs.states import Stage as RunStage
from runs.worker import execution, leases
from runs.worker.leases import Keeper
from tenants.models import Tenant
from tests.gear.builders import caps, recovery
from tests.gear.builders import runs as gear
from tests.gear.faults import schedules
from tests.gear.faults.orders import Search, Step, every_order
from tests.gear.faults.scenes import InstantBox
from tests.gear.faults.schedules import Stage
from tests.proving import proofs

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.contract("DPP-34", "DPP-37", "DPP-40", "DPP-41", "DPP-42", "CAP-08"),
]

Part = Callable[[Run], object]


def worker(run: Run) -> object:
    return execution.execute_run(run.run_id, message=None)


def reaper(_run: Run) -> object:
    return recovery.run_loop(lease_reaper.reap_leases)


def reconciler(_run: Run) -> object:
    return recovery.run_loop(claim_reconciler.reconcile_claims)


def sweeper(_run: Run) -> object:
    return recovery.run_loop(reservation_sweeper.sweep_reservations)


def canceler(run: Run) -> object:
    return cancellation.cancel_run(tenant_id=run.tenant_id, run_id=run.run_id, actor="owner")


PAIRS: Final = ((worker, reaper), (worker, canceler), (worker, sweeper), (worker, reconciler), (worker, worker))
CASTS: Final = (
    (worker, reaper, reconciler, canceler),
    (worker, sweeper, canceler),
    (worker, worker, reaper),
)


def named(cast: Sequence[Part]) -> str:
    return " ".join(part.__name__ for part in cast)


class Bucket:
    """Put and head, each an effect; reading is the test's own."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put(self, key: str, content: bytes, *, content_type: str) -> str:
        schedules.pause(f"put {content_type}", writes=[key])
        self.objects[key] = content
        return sha256(content).hexdigest()

    def head(self, key: str) -> ObjectHead | None:
        schedules.pause("head", reads=[key])
        return ObjectHead(size=len(self.objects[key]), content_type="") if key in self.objects else None

    def read(self, key: str, *, max_bytes: int) -> bytes:
        return self.objects[key][:max_bytes]


@pytest.fixture(autouse=True)
def _everybody_may_act(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, box = Bucket(), InstantBox()
    entries.top_up(tenant_id=tenant.tenant_id, amount_micros=10**12, reference="much", reason="", actor="test")
    caps.put_in_force(tenant, limits=caps.FAR)  # the law then includes what they count
    keeper = Keeper(watch_seconds=3_600)
    monkeypatch.setattr(leases, "keeper", lambda: keeper)
    monkeypatch.setattr(execution, "box", lambda: box)
    monkeypatch.setattr(storage.RunStorage, "put", bucket.put)
    monkeypatch.setattr(storage.RunStorage, "head", bucket.head)
    monkeypatch.setattr(storage.RunStorage, "read", bucket.read)
    monkeypatch.setattr(transitions, "LEASE_TTL_SECONDS", -1)
    monkeypatch.setattr(timing, "RECONCILE_AFTER_SECONDS", -1)


@pytest.fixture
def stage(tenant: Tenant) -> Iterator[Stage]:
    with Stage(4).set_up() as ready:
        yield ready


def due(tenant: Tenant) -> Run:
    """Queued for an hour, so that sweeper and worker both may have it."""
    return gear.aged(
        recovery.queued(tenant, pack_type="probe", inputs={"sleep_ms": 1}, timebox_sec=20), created_at=3_601
    )


def ends_once(run: Run) -> int:
    """Whoever was stopped or overtaken: the loops finish it, and it has ended once. What it cost."""
    for _ in range(3):
        ended = gear.row(run.run_id)
        if ended.finalize_stage == RunStage.COMMITTED:
            break
        for finisher in (reaper, reconciler, worker):
            finisher(run)
    assert ended.finalize_stage == RunStage.COMMITTED, ended
    assert RunHistory.objects.filter(run_id=run.run_id, stage=RunStage.COMMITTED).count() == 1
    assert ended.actual_cost_usd_micros is not None
    entries = list(LedgerEntry.objects.filter(run_id=run.run_id).values_list("kind", "amount_usd_micros"))
    charged = [("CHARGE", -ended.actual_cost_usd_micros)] if ended.actual_cost_usd_micros else []
    assert entries == charged, (ended.status, entries)
    assert (ended.result_key is not None) == (ended.status == "COMPLETED")
    if ended.result_key is not None:
        stored = storage.shared_run_storage().read(ended.result_key, max_bytes=1_000_000)
        assert sha256(stored).hexdigest() == ended.result_sha256, "the row names other bytes"
    return ended.actual_cost_usd_micros


def every_schedule(cast: Sequence[Part], *, preemptions: int, tenant: Tenant, stage: Stage) -> tuple[int, int]:
    """How many were played, and how many orders those stand for. After each one the run has ended once and every micro
    is where it belongs.
    """
    left = recovery.balance_micros(tenant)

    def play(choices: Sequence[int]) -> list[Step]:
        nonlocal left
        run = due(tenant)
        steps = stage.play([partial(part, run) for part in cast], choices)
        left -= ends_once(run)
        assert recovery.balance_micros(tenant) == left, steps
        return steps

    for first in range(len(cast)):
        play([first])  # the first time scripts are loaded, and a schedule would not repeat itself
    search = Search(play, preemptions=preemptions)
    count = sum(1 for _ in search.plays())
    assert recovery.held_micros(tenant) == {}
    recovery.law_holds(tenant)
    return count, search.orders()


@pytest.mark.parametrize("cast", PAIRS, ids=named)
def test_dpp_37_two_over_one_run_in_every_order_of_one_preemption(
    cast: Sequence[Part], tenant: Tenant, stage: Stage
) -> None:
    count, _ = every_schedule(cast, preemptions=1, tenant=tenant, stage=stage)
    assert count > 8
    proofs.report(cases=count)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("cast", [*PAIRS, *CASTS], ids=named)
def test_dpp_37_all_over_one_run_in_every_order_of_three_preemptions(
    cast: Sequence[Part], tenant: Tenant, stage: Stage
) -> None:
    count, orders = every_schedule(cast, preemptions=3, tenant=tenant, stage=stage)
    proofs.report(cases=count, met={"orders": orders})


# A check that cannot fail proves nothing.


def test_the_orders_that_are_played_show_what_every_order_shows(tenant: Tenant, stage: Stage) -> None:
    """Of worker and canceler, so few that all of them can be played as well."""
    cast, shown = (worker, canceler), list[object]()

    def play(choices: Sequence[int]) -> list[Step]:
        run = due(tenant)
        steps = stage.play([partial(part, run) for part in cast], choices)
        history = RunHistory.objects.filter(run_id=run.run_id).order_by("version").values_list("status", "stage")
        shown.append((*history, ends_once(run), gear.row(run.run_id).last_actor))
        return steps

    for first in range(len(cast)):
        play([first])
    shown.clear()
    orders = sum(1 for _ in every_order(play, preemptions=2))
    all_of_them = set(shown)
    shown.clear()
    search = Search(play, preemptions=2)
    plays = sum(1 for _ in search.plays())
    assert set(shown) == all_of_them
    assert len(all_of_them) > 1
    assert plays < search.orders() == orders


def test_a_claim_that_does_not_compare_is_found(tenant: Tenant, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that settles what it has not claimed charges a run that its owner got back."""
    claimed = execution._claim_of_executed_run

    def careless(run: Run, lease: Any, intent: Any) -> Any:
        services.settle(tenant_id=run.tenant_id, run_id=str(run.run_id), charge_micros=intent.charge_micros)
        return claimed(run, lease, intent)

    monkeypatch.setattr(execution, "_claim_of_executed_run", careless)
    with pytest.raises(AssertionError):
        every_schedule((worker, canceler), preemptions=1, tenant=tenant, stage=stage)


def test_a_pointer_to_another_result_is_found(tenant: Tenant, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row says which bytes its result has; a bucket that holds others is not what was charged for."""
    put: Any = storage.RunStorage.put

    def another(_bucket: Any, key: str, content: bytes, *, content_type: str) -> str:
        put(key, content + b" ", content_type=content_type)
        return sha256(content).hexdigest()

    monkeypatch.setattr(storage.RunStorage, "put", another)
    with pytest.raises(AssertionError, match="other bytes"):
        every_schedule((worker, reaper), preemptions=1, tenant=tenant, stage=stage)
