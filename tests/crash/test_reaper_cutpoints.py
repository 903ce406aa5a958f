"""Killed or cut at every request it sends, whatever it was doing: each run ends once, charged once, nothing stuck.

The real code in a process of its own, against the real services. Each request of each action meets each fault; then
everybody recovers, in one of several orders. `make test` takes some of the requests, each with one fault and one
order in turn; `make prove` takes all requests, each with all faults: who was killed leaves a wreck, which meets every
order, and who was cut goes on by itself, and meets two of them by turns.
"""

import itertools
from typing import Any, Final

import pytest

from budget import services
from budget.outcomes import SettleOutcome
from budget.redis import keys, scripts
from dpp_project.jobs.registry import PassReport
from reaper import claim_reconciler
from tests.gear.builders import caps
from tests.gear.builders.shop import Shop, rich_shop
from tests.gear.faults import scenes
from tests.gear.faults.cutpoints import Ended, Forge, forge
from tests.gear.faults.scenes import ORDERS, SITUATIONS, Situation, quick_surroundings
from tests.gear.faults.wire import Fault
from tests.proving import proofs

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.contract("DPP-06", "DPP-34", "DPP-42", "CAP-08", "CAP-09"),
    pytest.mark.usefixtures("quick_surroundings"),
]
__all__ = ["forge", "quick_surroundings", "rich_shop"]

SPREAD: Final = 36
"""The fast tests strike each action at every thirty-sixth of its requests, each beginning at another."""

CUTS: Final = (Fault.CUT_BEFORE, Fault.CUT_AFTER)

every_situation = pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)


@pytest.fixture
def shop(rich_shop: Shop) -> Shop:
    """What is counted under its caps is part of the law."""
    return caps.count_everything(rich_shop)


def undisturbed(situation: Situation, shop: Shop, forge: Forge) -> int:
    """How many requests the action sends; it ends well, or the faults would be shown of nothing.

    The first time it also loads its scripts into Redis, so the second time counts.
    """
    for _ in range(2):
        scene = scenes.begin(situation, shop)
        ended = forge.run(lambda scene=scene: situation.act(scene))  # type: ignore[misc]
        assert (ended.killed, ended.failed, ended.struck) == (False, None, False)
        scenes.recover(scene, ORDERS[0])
        scenes.holds_true(scene, ended.answer)
    return len(ended.requests)


def struck(situation: Situation, shop: Shop, forge: Forge, *, at: int, fault: Fault, order: int) -> Ended:
    scene = scenes.begin(situation, shop)
    ended = forge.run(lambda: situation.act(scene), at=at, fault=fault)
    assert ended.killed == (ended.struck and fault.kills), ended
    scenes.recover(scene, ORDERS[order])
    scenes.holds_true(scene, ended.answer)
    return ended


@every_situation
def test_dpp_42_a_request_may_be_an_actions_last(situation: Situation, shop: Shop, forge: Forge) -> None:
    count = undisturbed(situation, shop, forge)
    assert count >= 3
    turn = SITUATIONS.index(situation)
    for at in range(turn % min(SPREAD, count), count, SPREAD):
        fault, order = list(Fault)[(at // SPREAD + turn) % len(Fault)], (at + turn) % len(ORDERS)
        assert struck(situation, shop, forge, at=at, fault=fault, order=order).struck


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@every_situation
def test_dpp_42_every_fault_at_every_request_and_every_order_of_recovery(
    situation: Situation, shop: Shop, forge: Forge
) -> None:
    """Killed before a request leaves what killed after the one before it leaves: nothing reached a service between."""
    count = undisturbed(situation, shop, forge)
    strikes = [(0, Fault.KILL_BEFORE), *itertools.product(range(count), [Fault.KILL_AFTER, *CUTS])]
    cases = [(at, fault, order) for at, fault in strikes for order in orders_after(fault, at=at)]
    met = sum(struck(situation, shop, forge, at=at, fault=fault, order=order).struck for at, fault, order in cases)
    assert met == len(cases) >= count * (len(ORDERS) + 2 * len(CUTS))
    proofs.report(cases=met)


def orders_after(fault: Fault, *, at: int) -> list[int]:
    """Of a cut two, others at each request, until each of them has met each order."""
    first = 2 * (at + CUTS.index(fault)) if fault in CUTS else 0
    return [(first + more) % len(ORDERS) for more in range(2 if fault in CUTS else len(ORDERS))]


# A check that cannot fail proves nothing.


def test_a_reconciler_that_does_nothing_is_found(shop: Shop, forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    cancel = next(situation for situation in SITUATIONS if situation.name == "cancel at work")
    monkeypatch.setattr(claim_reconciler, "reconcile_claims", lambda **_: PassReport())
    count = undisturbed(cancel, shop, forge)
    stuck = 0
    for at in range(count):
        try:
            struck(cancel, shop, forge, at=at, fault=Fault.KILL_BEFORE, order=0)
        except AssertionError as error:
            assert "stuck" in str(error)
            stuck += 1
            break
    assert stuck == 1


def test_a_micro_that_is_lost_is_found(shop: Shop, forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    settle = services.settle

    def careless(**values: Any) -> SettleOutcome:
        scripts.shared_scripts().client.decr(keys.balance_key(values["tenant_id"]))
        return settle(**values)

    monkeypatch.setattr(services, "settle", careless)
    with pytest.raises(AssertionError, match="BALANCE"):
        undisturbed(next(one for one in SITUATIONS if one.name == "reaper"), shop, forge)
