"""Two workers with two permits, an owner and the requeuer over the line, at every effect, in every order (DPP-87, 98).

The real code on a real Postgres, Redis and queue. Nobody dies and no message is lost, so nobody needs to send again:
when all have done, what they sent is received, and then each run has ended once, its key and its tenant never beyond
their limits on the way.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import pytest

from runs import transitions, turns
from runs.bucket import storage
from runs.cancel import cancellation
from runs.claims import LOST
from runs.models import Run, RunHistory, RunTurn
from runs.states import Stage as RunStage
from runs.submit import next_of_key, wake_worker
from runs.submit.wake_worker import Wakeup
from runs.worker import execution, leases, starting
from runs.worker.leases import Keeper
from tenants.models import Tenant
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import messages
from tests.gear.builders.turns import KEY, in_line
from tests.gear.faults import schedules
from tests.gear.faults.orders import Search, Step
from tests.gear.faults.scenes import InstantBox
from tests.gear.faults.schedules import Stage
from tests.proving import proofs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-87", "DPP-98", "DPP-37")]

Part = Callable[[Sequence[Run]], object]
Line = Callable[[Tenant], Sequence[Run]]
SMALL: Final = 20_000


def worker(runs: Sequence[Run]) -> object:
    return execution.execute_run(runs[0].run_id, message=None, in_turn=True)


def other_worker(runs: Sequence[Run]) -> object:
    return execution.execute_run(runs[-1].run_id, message=None, in_turn=True)


def canceler(runs: Sequence[Run]) -> object:
    return cancellation.cancel_run(tenant_id=runs[-1].tenant_id, run_id=runs[-1].run_id, actor="owner")


def waker(_runs: Sequence[Run]) -> object:
    """The requeuer's part of it, not by chance in another order each time."""
    for tenant_id in turns.tenants_to_wake():
        next_of_key.wake_limited_if_possible(tenant_id)
    for tenant_id, key in turns.keys_to_wake():
        next_of_key.wake_next_if_possible(tenant_id, key)
    return None


def of_one_key(tenant: Tenant) -> Sequence[Run]:
    return [in_line(tenant, concurrency_key=KEY, reserved_micros=SMALL) for _ in range(2)]


def of_a_limit(tenant: Tenant) -> Sequence[Run]:
    Tenant.objects.filter(pk=tenant.pk).update(most_at_work=1)
    return [in_line(tenant, reserved_micros=SMALL) for _ in range(2)]


def of_a_key_and_a_limit(tenant: Tenant) -> Sequence[Run]:
    """Each has room under its key, and one of them under the tenant's limit."""
    Tenant.objects.filter(pk=tenant.pk).update(most_at_work=1)
    return [in_line(tenant, concurrency_key=key, reserved_micros=SMALL) for key in (KEY, "another")]


def by_priority(tenant: Tenant) -> Sequence[Run]:
    """The second goes first, in the turn of the first, and gives it a number that is far behind."""
    runs = [in_line(tenant, priority=priority, reserved_micros=SMALL) for priority in (0, 9)]
    last = RunTurn.objects.get(run_id=runs[1].run_id)
    RunTurn.objects.filter(run_id=last.run_id).update(fair_pass=last.fair_pass + 10**6)
    return runs


LINES: Final = (of_one_key, of_a_limit, of_a_key_and_a_limit, by_priority)
TWO: Final = (worker, other_worker)
CASTS: Final = ((TWO, 3), ((*TWO, canceler), 1), ((*TWO, waker), 1))
"""With how many preemptions: what a third actor adds is beside the other two, and waits for the same locks."""


def named(what: Any) -> str:
    if isinstance(what, int):
        return str(what)
    return what.__name__ if callable(what) else " ".join(part.__name__ for part in what)


class AtWork:
    """From the start that was won to the commit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now: set[Any] = set()
        self.most = 0
        start, commit = transitions.start, transitions.commit

        def started(**edge: Any) -> Any:
            answer = start(**edge)
            if answer is not LOST:
                self.now.add(edge["run_id"])
                self.most = max(self.most, len(self.now))
            return answer

        def committed(**edge: Any) -> Any:
            answer = commit(**edge)
            if answer is not LOST:
                self.now.discard(edge["claim"].run_id)
            return answer

        monkeypatch.setattr(transitions, "start", started)
        monkeypatch.setattr(transitions, "commit", committed)


@pytest.fixture
def at_work(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> AtWork:
    del tenant
    objects: dict[str, bytes] = {}

    def put(_bucket: object, key: str, content: bytes, *, content_type: str) -> str:
        schedules.pause(f"put {content_type}", writes=[key])
        objects[key] = content
        return "0" * 64

    send_many = wake_worker.send_wakeups

    def sent(wakeups: Sequence[Wakeup]) -> Any:
        schedules.pause("send", writes=["queue"])
        return send_many(wakeups)

    keeper, box = Keeper(watch_seconds=3_600), InstantBox()
    monkeypatch.setattr(starting, "_CHOOSING", threading.Semaphore(99))  # as workers of several processes
    monkeypatch.setattr(leases, "keeper", lambda: keeper)
    monkeypatch.setattr(execution, "box", lambda: box)
    monkeypatch.setattr(storage.RunStorage, "put", put)
    monkeypatch.setattr(wake_worker, "send_wakeups", sent)
    return AtWork(monkeypatch)


@pytest.fixture
def stage(at_work: AtWork) -> Iterator[Stage]:
    del at_work
    with Stage(3).set_up() as ready:
        yield ready


def every_schedule(
    line: Line, cast: Sequence[Part], *, preemptions: int, stage: Stage, at_work: AtWork
) -> tuple[int, int]:
    def play(choices: Sequence[int]) -> list[Step]:
        runs = line(recovery.funded())
        at_work.most = 0
        steps = stage.play([partial(part, runs) for part in cast], choices)
        while woken := messages():
            for message in woken:
                execution.execute_run(message["run_id"], message=None, in_turn=True)
        for run in runs:
            assert gear.row(run.run_id).finalize_stage == RunStage.COMMITTED, steps
            assert RunHistory.objects.filter(run_id=run.run_id, stage=RunStage.COMMITTED).count() == 1
            assert RunHistory.objects.filter(run_id=run.run_id, status="PROCESSING", stage=None).count() <= 1
        assert at_work.now == set()
        assert line is by_priority or at_work.most == 1, steps
        assert not RunTurn.objects.exists()
        return steps

    for first in range(len(cast)):
        play([first])  # the first time scripts are loaded, and a schedule would not repeat itself
    search = Search(play, preemptions=preemptions)
    return sum(1 for _ in search.plays()), search.orders()


def test_dpp_98_two_permits_end_two_runs_of_a_key_in_every_order_of_one_preemption(
    stage: Stage, at_work: AtWork
) -> None:
    count, _ = every_schedule(of_one_key, TWO, preemptions=1, stage=stage, at_work=at_work)
    assert count > 8
    proofs.report(cases=count)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("cast", "preemptions"), CASTS, ids=named)
@pytest.mark.parametrize("line", LINES, ids=named)
def test_dpp_98_two_permits_end_two_runs_of_every_line_in_every_order_of_few_preemptions(
    line: Line, cast: Sequence[Part], preemptions: int, stage: Stage, at_work: AtWork
) -> None:
    count, orders = every_schedule(line, cast, preemptions=preemptions, stage=stage, at_work=at_work)
    proofs.report(cases=count, met={"orders": orders})


def test_a_key_that_is_counted_without_its_lock_is_found(
    stage: Stage, at_work: AtWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that cannot fail proves nothing."""
    monkeypatch.setattr(turns, "room_of", lambda *_: 1)
    with pytest.raises(AssertionError):
        every_schedule(of_one_key, TWO, preemptions=1, stage=stage, at_work=at_work)
