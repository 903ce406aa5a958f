"""A random machine over the whole platform in process: everybody acts, anybody may die at any effect or be overtaken
there, Redis loses what it knew, caps and dates change; and after every step each run has at most one end and one
charge, to the micro, and no hold has passed a cap in force.

Real Postgres, Valkey, SQS and S3; only the pack is one that answers at once. The seed is printed;
DPP_MACHINE_SEED=<n> replays it. `make test` takes some days of the platform's life, the slow one many more.
"""

import gc
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, ClassVar, Final

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from prometheus_client import REGISTRY
from redis import Redis

from budget import services
from budget.outcomes import Closed, HoldOutcome, SettleOutcome
from budget.rebuild import rebuild
from budget.redis import keys, scripts
from budget.redis.windows import NO_CAPS_KNOWN, NOWHERE, PERIODS, CapPeriod
from budget.verification import verify_caps
from dpp_project.jobs.registry import PassReport
from dpp_project.reasons import ReasonCode
from runs.box.outcomes import Done, Failed, Stopped
from runs.models import Run
from runs.states import Stage
from runs.worker import execution, store_result
from tests.gear.faults.interruption import Interruption, beside
from tests.gear.faults.scenes import quick_surroundings
from tests.gear.reference.platform_world import LOOPS, Pack, Request, World
from tests.proving import proofs

pytestmark = [
    pytest.mark.django_db(transaction=True),
    # A process that dies leaves cursors open; here its memory lives on.
    pytest.mark.filterwarnings("ignore:.*was deleted while still open:ResourceWarning"),
    pytest.mark.contract("DPP-06", "DPP-34", "DPP-37", "DPP-42", "DPP-44", "DPP-55", "DPP-56"),
    pytest.mark.contract("CAP-02", "CAP-05", "CAP-07", "CAP-08", "CAP-09"),
]
__all__ = ["quick_surroundings"]

LAST_EFFECT: Final = 13
picks = st.integers(0, 10_000)
places = st.integers(0, LAST_EFFECT)
prices = st.sampled_from(["0.2500", "0.2500", "0.0100", "0.0001", "4.0000"])
ages = st.sampled_from([6, 31, 61, 125, 151, 301, 901, 3_601])
scopes = st.integers(0, 2)
limits = st.sampled_from([None, 0, 300_000, 600_000, 2_000_000, 20_000_000, 20_000_000, 20_000_000])
changes = st.dictionaries(st.sampled_from(PERIODS), limits, min_size=1, max_size=3)
DATES: Final = ("midnight", "midnight", "a week", "a month", "back", "back", "east", "west")
dates = st.sampled_from(DATES)
caps_meet = st.sampled_from(["caps lost", "date moved", "clock back", "capped meanwhile"])
FIRST_CAPS: Final[tuple[dict[CapPeriod, int | None], ...]] = ({"week": 5_000_000}, {"day": 4_500_000})
"""Of the tenant and of the first key. By and by each scope has others."""
outcomes = st.sampled_from(
    [
        *[
            Done(data={"answer": 1}, artifacts=(), spent_micros=micros, tokens=1)
            for micros in (1, 7_777, 50_000, 10**9)
        ],
        Failed(reason=ReasonCode.PACK_FAILED, detail="The machine says so."),
        Failed(reason=ReasonCode.ENGINE_UNAVAILABLE, detail="There is none."),
        Stopped(),
    ]
)
deaths = st.builds(Interruption, at=places, after=st.booleans())
RIVALS: Final = (
    "retaken",
    "reaped",
    "canceled",
    "flushed",
    "flushed and rebuilt",
    "rolled back",
    "executed",
    "submitted",
    "tenant rebuilt",
    "capped",
    "caps lost",
    "date moved",
)
WHAT_CAPS_MEET: Final = (
    "Held",
    "CapReached",
    "refused by a cap",
    "DateBehind",
    "caps keys lost",
    "caps found lost",
    "rebuilt tenant",
    "rebuilt all",
)
watched_holds: Final[list[Callable[[Callable[..., HoldOutcome], Mapping[str, Any]], HoldOutcome]]] = []
"""The world that watches holds now."""
QUIET: Final = "quiet"
during = st.sampled_from([QUIET, QUIET, QUIET, *RIVALS])


class PlatformMachine(RuleBasedStateMachine):
    steps_taken: ClassVar[int] = 0
    struck: ClassVar[int] = 0
    ends: ClassVar[Counter[str]] = Counter()
    met: ClassVar[Counter[str]] = Counter()
    pack: ClassVar[Pack]

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.pack)
        watched_holds[:] = [self.world.watch_hold]

    @initialize(first=st.lists(prices, min_size=1, max_size=3), image=st.booleans())
    def some_runs_wait(self, first: list[str], image: bool) -> None:  # noqa: FBT001  hypothesis passes it by name
        for scope, limits in zip(self.world.scopes(), FIRST_CAPS, strict=False):
            self.world.set_caps(scope, limits)
        for price in first:
            self.world.submit(self.world.new_request(price))
        if image:
            self.world.save_image()

    # Customers.

    @rule(price=prices, outcome=outcomes, meanwhile=during, pick=picks, data=st.data())
    def submit_and_deliver(self, price: str, outcome: Any, meanwhile: str, pick: int, data: st.DataObject) -> None:
        """Hypothesis leaves rules out, to go deep with the others; a whole life is always among them."""
        self.world.submit(self.world.new_request(price))
        self.deliver_one(outcome, meanwhile, pick, data)

    @rule(price=prices, data=st.data())
    def submit(self, price: str, data: st.DataObject) -> None:
        request = self.world.new_request(price)
        self._interruptible(lambda: self.world.submit(request), data)

    @precondition(lambda self: self.world.requests)
    @rule(pick=picks, data=st.data())
    def ask_again(self, pick: int, data: st.DataObject) -> None:
        """Not for a run past its retention: its key is free, and stands for a new request."""
        request = self._request(pick)
        if not self._has_passed(request):
            self._interruptible(lambda: self.world.submit(request), data)

    @precondition(lambda self: self.world.requests)
    @rule(pick=picks, data=st.data())
    def cancel(self, pick: int, data: st.DataObject) -> None:
        if (run := self._run(pick)) is not None:
            self._interruptible(lambda: self.world.cancel(run.run_id), data)

    @rule(micros=st.sampled_from([1, 250_000, 5_000_000]), data=st.data())
    def top_up(self, micros: int, data: st.DataObject) -> None:
        self._interruptible(lambda: self.world.top_up(micros), data)

    # Workers.

    @rule(outcome=outcomes, meanwhile=during, pick=picks, data=st.data())
    def deliver(self, outcome: Any, meanwhile: str, pick: int, data: st.DataObject) -> None:
        self.deliver_one(outcome, meanwhile, pick, data)

    def deliver_one(self, outcome: Any, meanwhile: str, pick: int, data: st.DataObject) -> None:
        self.pack.outcome = outcome
        self.pack.meanwhile = None if meanwhile == QUIET else lambda: beside(self._rival(meanwhile, pick))
        self._interruptible(self.world.deliver, data)

    @precondition(lambda self: self.world.requests)
    @rule(pick=picks, again=st.sampled_from(["send", "execute", "bury"]))
    def doubled_or_dead(self, pick: int, again: str) -> None:
        if (run := self._run(pick)) is not None:
            {
                "send": lambda: self.world.send_again(run),
                "execute": lambda: self.world.execute_again(run.run_id),
                "bury": lambda: self.world.bury(run),
            }[again]()

    # Recovery and operators.

    @rule(name=st.sampled_from(["watch", "watch", "pending", *LOOPS]), data=st.data())
    def recover(self, name: str, data: st.DataObject) -> None:
        self._interruptible(lambda: self.world.run_loop(name), data)

    @rule(whole=st.booleans(), data=st.data())
    def rebuild(self, whole: bool, data: st.DataObject) -> None:  # noqa: FBT001  hypothesis passes it by name
        self._interruptible(
            rebuild.rebuild_all if whole else lambda: rebuild.rebuild_tenant(self.world.tenant_id), data, rivals=False
        )

    @precondition(lambda self: self.world.ended)
    @rule(pick=picks, step=st.sampled_from(["open", "uphold", "refund"]), data=st.data())
    def dispute(self, pick: int, step: str, data: st.DataObject) -> None:
        if (run := self._ended(pick)) is not None:
            self._interruptible(lambda: self.world.dispute(run, step), data)

    @rule(which=scopes, changes=changes, data=st.data())
    def set_caps(self, which: int, changes: dict[CapPeriod, int | None], data: st.DataObject) -> None:
        self._interruptible(lambda: self.world.set_caps(self.world.scopes()[which], changes), data)

    # What happens by itself.

    @rule(what=caps_meet, which=scopes, at=places, price=prices, how=dates)
    def meets_caps(self, what: str, which: int, at: int, price: str, how: str) -> None:
        """Few rules, or the others would have too little of each day."""
        scope, request = self.world.scopes()[which], self.world.new_request(price)
        interruption = None
        if what == "caps lost":
            self.world.lose_caps(scope)
        elif what == "date moved":
            self.world.move_date(how)
        elif what == "clock back":  # to the other side of a midnight that a run has met
            self.world.move_date("midnight")
            self.world.submit(self.world.new_request(price))
            self.world.move_date("back")
        elif what == "capped meanwhile":  # a submit that has looked at its caps may find others when it holds
            interruption = Interruption(at=at, rival=lambda: self.world.set_caps(scope, {"day": 0}))
        self.world.act(lambda: self.world.submit(request), interruption)

    @rule(seconds=ages)
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    @precondition(lambda self: self.world.ended)
    @rule(pick=picks, data=st.data())
    def retention_passes(self, pick: int, data: st.DataObject) -> None:
        if (run := self._ended(pick)) is not None:
            self.world.pass_retention(run)
            self._interruptible(lambda: self.world.run_loop("retention"), data)

    @rule(what=st.sampled_from(["nothing", "nothing", "save", "flush", "restore"]))
    def redis_loses(self, what: str) -> None:
        if what != "nothing":
            {"save": self.world.save_image, "flush": self.world.flush, "restore": self.world.restore_image}[what]()

    # After every step.

    @invariant()
    def each_run_has_one_end_and_every_micro_its_place(self) -> None:
        PlatformMachine.steps_taken += 1
        self.world.holds_true()

    def teardown(self) -> None:
        self.pack.outcome = Done(data={"answer": 1}, artifacts=(), spent_micros=1, tokens=1)
        self.pack.meanwhile = None
        self.world.come_to_rest()
        PlatformMachine.met.update(self.world.met)
        PlatformMachine.ends.update(f"{row.status} {row.reason or ''}".strip() for row in self.world.truths())

    # How.

    def _interruptible(self, action: Callable[[], Any], data: st.DataObject, *, rivals: bool = True) -> None:
        how = data.draw(st.sampled_from(["whole", "whole", "death", "death", "rival" if rivals else "death"]))
        interruption = None
        if how == "death":
            interruption = data.draw(deaths)
            # Hypothesis may hand the same object out again.
            interruption = Interruption(at=interruption.at, after=interruption.after)
        elif how == "rival":
            name, pick = data.draw(st.sampled_from(RIVALS)), data.draw(picks)
            interruption = Interruption(at=data.draw(places), rival=self._rival(name, pick))
        self.world.act(action, interruption)
        PlatformMachine.struck += interruption is not None and interruption.struck

    def _rival(self, name: str, pick: int) -> Callable[[], Any]:
        return {
            "retaken": lambda: self._later(301, "claim_reconciler"),
            "reaped": lambda: self._later(125, "lease_reaper"),
            "canceled": lambda: self._on_run(pick, lambda run: self.world.cancel(run.run_id)),
            "flushed": self.world.flush,
            "flushed and rebuilt": self._flushed_and_rebuilt,
            "rolled back": self.world.restore_image,
            "executed": lambda: self._on_run(pick, lambda run: self.world.execute_again(run.run_id)),
            "submitted": lambda: self.world.submit(self.world.new_request("0.2500")),
            "tenant rebuilt": lambda: rebuild.rebuild_tenant(self.world.tenant_id),
            "capped": lambda: self.world.set_caps(
                self.world.scopes()[pick % 3], {PERIODS[pick % 4]: (None, 300_000, 20_000_000)[pick % 5 % 3]}
            ),
            "caps lost": lambda: self.world.lose_caps(self.world.scopes()[pick % 3]),
            "date moved": lambda: self.world.move_date(DATES[pick % len(DATES)]),
        }[name]

    def _later(self, seconds: int, loop: str) -> None:
        self.world.pass_time(seconds)
        self.world.run_loop(loop)

    def _flushed_and_rebuilt(self) -> None:
        self.world.flush()
        self.world.run_loop("watch")

    def _on_run(self, pick: int, act: Callable[[Run], None]) -> None:
        if (run := self._run(pick)) is not None:
            act(run)

    def _request(self, pick: int) -> Request:
        return self.world.requests[pick % len(self.world.requests)]

    def _has_passed(self, request: Request) -> bool:
        return (
            request.receipt is not None
            and not Run.objects.filter(tenant_id=self.world.tenant_id, idempotency_key=request.key).exists()
        )

    def _run(self, pick: int) -> Run | None:
        runs = list(Run.objects.filter(tenant_id=self.world.tenant_id).order_by("run_id"))
        return runs[pick % len(runs)] if runs else None

    def _ended(self, pick: int) -> Run | None:
        runs = list(
            Run.objects.filter(tenant_id=self.world.tenant_id, finalize_stage=Stage.COMMITTED).order_by("run_id")
        )
        return runs[pick % len(runs)] if runs else None


def run_machine(*, examples: int, steps_each: int, shrink: bool = True) -> int:
    """Steps taken. The seed is printed and reported, and given back by DPP_MACHINE_SEED."""
    PlatformMachine.steps_taken = PlatformMachine.struck = 0
    PlatformMachine.ends.clear()
    PlatformMachine.met.clear()
    before = lost_and_rebuilt()
    seed = int(os.environ.get("DPP_MACHINE_SEED") or random.SystemRandom().randrange(2**32))
    print(f"DPP_MACHINE_SEED={seed}")  # noqa: T201  pytest shows it when the test fails
    hypothesis.seed(seed)(PlatformMachine)
    run_state_machine_as_test(
        PlatformMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps_each,
            deadline=None,
            database=None,
            print_blob=True,
            phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
            suppress_health_check=list(HealthCheck),
        ),
        _min_steps=steps_each,
    )
    PlatformMachine.met.update(lost_and_rebuilt() - before)
    print(f"steps={PlatformMachine.steps_taken} interrupted={PlatformMachine.struck} {PlatformMachine.ends}")  # noqa: T201
    print(f"met={PlatformMachine.met}")  # noqa: T201
    met = {what.replace(" ", "_"): PlatformMachine.met[what] for what in WHAT_CAPS_MEET}
    proofs.report(cases=PlatformMachine.steps_taken, seed=seed, met=met)
    return PlatformMachine.steps_taken


def lost_and_rebuilt() -> Counter[str]:
    """Holds that found a scope lost or older than they knew, and rebuilds, as this process counts them itself."""
    lost = REGISTRY.get_sample_value("dpp_money_operations_total", {"operation": "hold", "answer": Closed.CAPS.value})
    found = Counter({"caps found lost": int(lost or 0)})
    for scope in ("all", "tenant"):
        rebuilt = REGISTRY.get_sample_value("dpp_budget_rebuilds_total", {"scope": scope})
        found[f"rebuilt {scope}"] = int(rebuilt or 0)
    return found


@pytest.fixture
def machine(
    valkey: Redis, aws: str, transactional_db: None, quick_surroundings: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """What waits, waits in the machine's own time: nobody is patient for real seconds.

    A scope that is not there is found at once as well: World knows which may be absent.
    """
    pack, hold = Pack(), services.hold
    monkeypatch.setattr(services, "hold", lambda **values: watched_holds[0](hold, values))
    monkeypatch.setattr(verify_caps, "JUST_CHANGED", timedelta())
    monkeypatch.setattr(PlatformMachine, "pack", pack, raising=False)
    monkeypatch.setattr(execution, "box", lambda: pack)
    for owner, name in (
        (execution, "START_PATIENCE_SECONDS"),
        (execution, "CLAIM_PATIENCE_SECONDS"),
        (execution, "FINISH_PATIENCE_SECONDS"),
        (store_result, "STORE_PATIENCE_SECONDS"),
    ):
        monkeypatch.setattr(owner, name, 0.0)
    yield
    gc.collect()  # while what the dead left open may still be ignored


@pytest.mark.timeout(600)
def test_whatever_happens_each_run_ends_once_and_is_charged_once(machine: None) -> None:
    assert run_machine(examples=7, steps_each=40) >= 280
    assert PlatformMachine.struck >= 14
    assert PlatformMachine.ends.total() >= 10


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_whatever_happens_for_many_days_each_run_ends_once_and_is_charged_once(machine: None) -> None:
    assert run_machine(examples=110, steps_each=60) >= 6_000
    assert PlatformMachine.struck >= 500
    assert {"COMPLETED", "EXPIRED", "FAILED WORKER_TIMEOUT", "FAILED CANCELED_BY_OWNER"} <= set(PlatformMachine.ends)
    assert min(PlatformMachine.met[what] for what in WHAT_CAPS_MEET) >= 1, PlatformMachine.met


# A check that cannot fail proves nothing.


@pytest.mark.timeout(600)
def test_the_machine_finds_a_micro_that_is_lost(machine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    settle = services.settle

    def careless(**values: Any) -> SettleOutcome:
        scripts.shared_scripts().client.decr(keys.balance_key(values["tenant_id"]))
        return settle(**values)

    monkeypatch.setattr(services, "settle", careless)
    with pytest.raises(AssertionError, match="BALANCE"):
        run_machine(examples=60, steps_each=40, shrink=False)


@pytest.mark.slow
def test_the_machine_finds_a_claim_that_nobody_takes_over(machine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOOPS, "claim_reconciler", lambda **_: PassReport())
    with pytest.raises(AssertionError, match=r"stuck.*CLAIMED"):
        run_machine(examples=60, steps_each=40, shrink=False)


@pytest.mark.slow
@pytest.mark.contract("CAP-08")
def test_the_machine_finds_a_charge_that_no_cap_counts(machine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    settle = services.settle
    monkeypatch.setattr(services, "settle", lambda **values: settle(**(values | {"counted": NOWHERE})))
    with pytest.raises(AssertionError, match=r"CAP_COUNTED|CAP_USED"):
        run_machine(examples=60, steps_each=40, shrink=False)


@pytest.mark.slow
@pytest.mark.contract("CAP-09")
def test_the_machine_finds_a_hold_past_a_cap_that_was_lost(machine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a process that does not say which change of caps it knows."""
    hold = services.hold
    monkeypatch.setattr(services, "hold", lambda **values: hold(**(values | {"least": NO_CAPS_KNOWN})))
    with pytest.raises(AssertionError, match="past what was in force"):
        run_machine(examples=60, steps_each=40, shrink=False)
