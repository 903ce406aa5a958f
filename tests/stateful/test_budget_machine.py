"""A random machine over all that can happen to money: scripts and model side by side, the law after every step.

The seed is printed; DPP_MACHINE_SEED=<n> replays it. `make test` takes 10,000 steps, the slow one many more.
"""

import os
import random
from typing import ClassVar, Final

import hypothesis
import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from budget.money import MAX_MICROS
from budget.redis import keys
from budget.redis.windows import PERIODS, CapPeriod
from dpp_project.stores import redis as dpp_redis
from tests.gear.reference.books import Row, Scope
from tests.gear.reference.money import OTHER, TENANT, run_keys
from tests.gear.reference.money_world import Actor, World, run_out
from tests.proving import proofs

pytestmark = pytest.mark.contract("DPP-52", "DPP-53", "DPP-55", "DPP-57", "CAP-05", "CAP-07", "CAP-08")

tenant_ids = st.sampled_from([TENANT, OTHER])
amounts = st.one_of(
    st.integers(1, 1_000_000),
    st.sampled_from([1, 5_000, 10**14 - 1, 10**14, 10**14 + 1, 2**52 + 1, MAX_MICROS - 1, MAX_MICROS]),
    st.integers(1, MAX_MICROS),
)
picks = st.integers(0, 10_000)
lineages = st.sampled_from([None, "one", "one", "two"])
capped = st.tuples(tenant_ids, lineages)
limits = st.fixed_dictionaries(
    {it: st.one_of(st.none(), st.none(), st.sampled_from([0, 10**11, 10**12, MAX_MICROS])) for it in PERIODS}
)
DONE: Final = object()
garbage = st.one_of(
    st.sampled_from(["nan", "-1", "0.5", "1e3", "0x10", "", "-nan", "inf", "00", str(MAX_MICROS + 1)]),
    st.text(alphabet="0123456789-+.einax ", max_size=20),
)


class BudgetMachine(RuleBasedStateMachine):
    steps_taken: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.world = World(dpp_redis.redis_client())

    @initialize(one=st.one_of(st.just(10**12), amounts), other=st.one_of(st.just(10**12), amounts))
    def two_tenants_with_money_and_scopes(self, one: int, other: int) -> None:
        run_out(self.world.rebuild())
        run_out(self.world.top_up(TENANT, one))
        run_out(self.world.top_up(OTHER, other))
        self.world.known_epoch = self.world.gate_check() or ""
        for scope in ((TENANT, None), (TENANT, "one"), (OTHER, "one")):
            run_out(self.world.put_caps(scope, dict.fromkeys(PERIODS, None)))

    # Someone begins.

    @rule(tenant_id=tenant_ids, micros=amounts, sign=st.sampled_from([1, 1, -1]), effects=st.integers(1, 4))
    def top_up_or_adjust(self, tenant_id: str, micros: int, sign: int, effects: int) -> None:
        self._begin(self.world.top_up(tenant_id, sign * micros), effects)

    @rule()
    def replay(self) -> None:
        self._begin(self.world.replay())

    @rule(tenant_id=tenant_ids, micros=amounts, lineage_id=lineages)
    def submit(self, tenant_id: str, micros: int, lineage_id: str | None) -> None:
        self._begin(self.world.submit(tenant_id, micros, lineage_id))

    @rule(
        tenant_id=tenant_ids,
        percent=st.sampled_from([1, 10, 33, 100, 101]),
        lineage_id=lineages,
        effects=st.sampled_from([1, 2, 3, 3, 3]),
    )
    def submit_within(self, tenant_id: str, percent: int, lineage_id: str | None, effects: int) -> None:
        """A hold that is a share of what is there, or a little more than all of it."""
        balance = int(self.world.model.strings.get(keys.balance_key(tenant_id), "0"))
        if 0 < (micros := balance * percent // 100) <= MAX_MICROS:
            self._begin(self.world.submit(tenant_id, micros, lineage_id), effects)

    @precondition(lambda self: self.world.books.rows)
    @rule(pick=picks, percent=st.sampled_from([None, 0, 1, 50, 100, 110]), effects=st.sampled_from([1, 2, 3, 3, 3, 4]))
    def finish(self, pick: int, percent: int | None, effects: int) -> None:
        """Settle at some share of the hold, or (None) give it back."""
        row = self._row(pick)
        charge = None if percent is None else min(row.reserved_micros * percent // 100, MAX_MICROS)
        self._begin(self.world.finish(row.run_id, charge), effects)

    @precondition(lambda self: self.world.books.rows)
    @rule(pick=picks)
    def retake(self, pick: int) -> None:
        self._begin(self.world.retake(self._row(pick).run_id))

    @precondition(lambda self: self.world.books.rows)
    @rule(pick=picks, effects=st.integers(1, 4))
    def dispute(self, pick: int, effects: int) -> None:
        self._begin(self.world.dispute(self._row(pick).run_id), effects)

    # Caps change, and days pass.

    @rule(scope=capped, limits=limits, effects=st.sampled_from([1, 2, 20, 20]))
    def put_caps(self, scope: Scope, limits: dict[CapPeriod, int | None], effects: int) -> None:
        self._begin(self.world.put_caps(scope, limits), effects)

    @rule(days=st.sampled_from([0, 0, 1, 1, 1, 3, -1]))
    def pass_days(self, days: int) -> None:
        self.world.pass_days(days)

    @precondition(lambda self: self.world.books.caps)
    @rule(pick=picks, name=st.sampled_from(["", "", "", "key", "revision", "date", "limits", "counted", "used"]))
    def a_scope_is_lost(self, pick: int, name: str) -> None:
        scope = list(self.world.books.caps)[pick % len(self.world.books.caps)]
        if name == "key":
            self.world.drop(keys.caps_key(*scope))
        elif name:
            self.world.cut(scope, name)

    # Someone goes on, or dies.

    @precondition(lambda self: self.world.actors)
    @rule(pick=picks, effects=st.integers(1, 4))
    def go_on(self, pick: int, effects: int) -> None:
        self._go_on(pick, effects)

    @precondition(lambda self: self.world.actors)
    @rule(pick=picks)
    def go_on_to_the_end(self, pick: int) -> None:
        self._go_on(pick, 20)

    @precondition(lambda self: self.world.actors)
    @rule(pick=picks)
    def crash(self, pick: int) -> None:
        del self.world.actors[pick % len(self.world.actors)]

    # Redis loses, and is rebuilt: by as many at once as there are, as if there were no lock.

    @rule()
    def save_image(self) -> None:
        self.world.save()

    @rule(what=st.sampled_from([""] * 12 + ["hour", "balance", "flush", "image", "image"]), tenant_id=tenant_ids)
    def redis_loses(self, what: str, tenant_id: str) -> None:
        """More often nothing than something: money must also come some way before it is lost."""
        if what == "flush":
            self.world.flush()
        elif what == "image" and self.world.image is not None:
            self.world.restore()
        elif what == "balance":
            self.world.drop(keys.balance_key(tenant_id))
        elif what == "hour" and self.world.seconds < keys.RECEIPT_TTL_SECONDS - 2 * keys.RESERVE_TTL_SECONDS:
            self.world.pass_an_hour()

    @rule(tenant_id=st.sampled_from([None, TENANT, OTHER]), effects=st.sampled_from([1, 2, 3, 20, 20, 20, 20]))
    def rebuild(self, tenant_id: str | None, effects: int) -> None:
        self._begin(self.world.rebuild() if tenant_id is None else self.world.rebuild_one(tenant_id), effects)

    # Someone asks for nonsense.

    @rule(tenant_id=tenant_ids, name=st.sampled_from(["reserve", "settle", "credit"]), amount=garbage)
    def nonsense(self, tenant_id: str, name: str, amount: str) -> None:
        if amount.isascii() and amount.lstrip("-").isdigit() and not amount.lstrip("-").startswith("0"):
            return
        before = self.world.real.state()
        arguments = {
            "reserve": [tenant_id, amount, "1", "nonsense", self.world.known_epoch],
            "settle": [amount, tenant_id, "nonsense", self.world.known_epoch],
            "credit": [tenant_id, amount, "nonsense", self.world.known_epoch],
        }[name]
        assert self.world.call(name, run_keys(tenant_id, "nonsense"), arguments)[0].startswith("ERR_")
        assert self.world.real.state() == before

    # After every step.

    @invariant()
    def scripts_and_model_agree(self) -> None:
        BudgetMachine.steps_taken += 1
        self.world.sides_agree()

    @invariant()
    def not_a_micro_is_wrong(self) -> None:
        self.world.laws_hold()

    def teardown(self) -> None:
        self.world.settle_down()

    def _row(self, pick: int) -> Row:
        return list(self.world.books.rows.values())[pick % len(self.world.books.rows)]

    def _begin(self, actor: Actor, effects: int = 1) -> None:
        self.world.actors.append(actor)
        self._go_on(-1, effects)

    def _go_on(self, pick: int, effects: int) -> None:
        place = pick % len(self.world.actors)
        for _ in range(effects):
            if next(self.world.actors[place], DONE) is DONE:
                del self.world.actors[place]
                return


def run_machine(*, examples: int, steps_each: int) -> int:
    """Steps taken. The seed is printed and reported, and given back by DPP_MACHINE_SEED."""
    BudgetMachine.steps_taken = 0
    seed = int(os.environ.get("DPP_MACHINE_SEED") or random.SystemRandom().randrange(2**32))
    print(f"DPP_MACHINE_SEED={seed}")  # noqa: T201  pytest shows it when the test fails
    hypothesis.seed(seed)(BudgetMachine)
    run_state_machine_as_test(
        BudgetMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps_each,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
        _min_steps=steps_each,
    )
    proofs.report(cases=BudgetMachine.steps_taken, seed=seed)
    return BudgetMachine.steps_taken


@pytest.mark.timeout(600)
def test_the_machine_finds_not_a_micro_wrong(valkey: redis.Redis) -> None:
    assert run_machine(examples=60, steps_each=50) >= 2_500


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_the_machine_finds_not_a_micro_wrong_in_many_steps(valkey: redis.Redis) -> None:
    assert run_machine(examples=2_000, steps_each=100) >= 200_000
