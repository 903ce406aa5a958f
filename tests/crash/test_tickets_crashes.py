"""An ops cycle killed or cut at every request it sends: each ticket ends once, and what it asks for is done once.

The real code in a process of its own, against the real services, as in test_reaper_cutpoints. Afterwards either the
cycle comes again after five minutes, or nobody comes for a day and the reaper is first. `make test` takes some of the
requests, each with one fault and one ending in turn.
"""

import itertools
from typing import Final

import pytest
from django.db.models.functions import Now

from budget.models import LedgerEntry
from dpp_project.aws import prefixes
from ops.tickets import processors, reaper
from ops.tickets.models import ReaperReport
from ops.tickets.states import RequestType
from runs.bucket import storage
from tests.gear.builders import tickets as gear
from tests.gear.builders.shop import Shop, rich_shop
from tests.gear.faults import ticket_scenes
from tests.gear.faults.cutpoints import Ended, Forge, forge
from tests.gear.faults.scenes import quick_surroundings
from tests.gear.faults.ticket_scenes import DEEDS, ENDINGS, Deed, quick_seconds, resumed
from tests.gear.faults.wire import Fault
from tests.proving import proofs

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.contract("TKT-01", "TKT-03", "TKT-06", "TKT-07"),
    pytest.mark.usefixtures("quick_surroundings", "quick_seconds"),
]
__all__ = ["forge", "quick_seconds", "quick_surroundings", "rich_shop"]

SPREAD: Final = 60
LOADS: Final = 12
"""A first time may send that many requests more; a sample leaves them out, and need not look a second time."""
every_deed = pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.name)


@pytest.fixture
def shop(rich_shop: Shop) -> Shop:
    storage.shared_run_storage().delete_prefix(prefixes.REPORTS)
    return rich_shop


def undisturbed(deed: Deed, shop: Shop, forge: Forge, *, times: int = 2) -> list[str]:
    """What a cycle sends to whom; the first time it also loads scripts and schemas, so the second counts."""
    for _ in range(times):
        scene = ticket_scenes.begin(deed, shop)
        ended = forge.run(lambda scene=scene: ticket_scenes.act(scene))  # type: ignore[misc]
        assert (ended.killed, ended.failed, ended.struck) == (False, None, False)
        assert gear.row(scene.ticket.pk).status == "DONE"
        scene.answers.append(ended.answer)
        resumed(scene)
        ticket_scenes.holds_true(scene, ending=resumed)
    return ended.requests


def struck(deed: Deed, shop: Shop, forge: Forge, *, at: int, fault: Fault, ending: int) -> Ended:
    scene = ticket_scenes.begin(deed, shop)
    ended = forge.run(lambda: ticket_scenes.act(scene), at=at, fault=fault)
    assert ended.killed == (ended.struck and fault.kills), ended
    scene.answers.append(ended.answer)
    ENDINGS[ending](scene)
    ticket_scenes.holds_true(scene, ending=ENDINGS[ending])
    return ended


@every_deed
def test_tkt_03_any_request_may_be_a_cycles_last(deed: Deed, shop: Shop, forge: Forge) -> None:
    requests = undisturbed(deed, shop, forge, times=1)
    assert {"postgres", "aws"} <= set(requests)
    turn, count = DEEDS.index(deed), len(requests) - LOADS
    for number, at in enumerate(range(turn % min(SPREAD, count), count, SPREAD)):
        fault = list(Fault)[(number + turn) % len(Fault)]
        assert struck(deed, shop, forge, at=at, fault=fault, ending=(number // 2 + turn) % len(ENDINGS)).struck


@pytest.mark.slow
@pytest.mark.timeout(600)
@every_deed
def test_tkt_03_every_request_killed_and_cut_with_every_ending(deed: Deed, shop: Shop, forge: Forge) -> None:
    """Each request meets a kill under one ending and a cut under the other, before and after it by turns.

    The last is the one after which a cycle goes through: what a rebuild finds and asks differs a little each time.
    """
    usual, met = len(undisturbed(deed, shop, forge)), 0
    for ending in range(len(ENDINGS)):
        for at in itertools.count():
            fault = list(Fault)[at % 2 + 2 * ((ending + at // 2) % 2)]
            if not struck(deed, shop, forge, at=at, fault=fault, ending=ending).struck:
                break
            met += 1
    assert met >= (usual - LOADS) * len(ENDINGS)
    proofs.report(cases=met)


# A check that cannot fail proves nothing.


def first_fault_found(deed: Deed, shop: Shop, forge: Forge, *, part: float) -> Exception:
    """Killed after each of its requests in turn, from that part of the cycle on, until something is wrong."""
    count = len(undisturbed(deed, shop, forge))
    for at in range(int(count * part), count):
        try:
            struck(deed, shop, forge, at=at, fault=Fault.KILL_AFTER, ending=0)
        except (AssertionError, storage.ObjectMissing) as error:
            return error
    raise AssertionError("nothing was found")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_top_up_that_is_entered_at_each_try_is_found(
    shop: Shop, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processors, "reference_of", lambda ticket: f"ticket-{ticket.pk}-{ticket.attempts}")
    deed = Deed(
        "careless top-up",
        RequestType.BUDGET_TOPUP,
        DEEDS[2].prepare,
        lambda scene: LedgerEntry.objects.filter(reference__startswith=f"ticket-{scene.ticket.pk}").count(),
    )
    assert str(first_fault_found(deed, shop, forge, part=0.5)) == "2"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_report_that_is_marked_before_it_is_written_is_found(
    shop: Shop, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = reaper.publish_due

    def careless() -> None:
        due = list(ReaperReport.objects.filter(published_at__isnull=True).values_list("pk", flat=True))
        ReaperReport.objects.filter(pk__in=due).update(published_at=Now())
        ReaperReport.objects.filter(pk__in=due).update(published_at=None)
        publish()

    monkeypatch.setattr(reaper, "publish_due", careless)
    assert isinstance(first_fault_found(DEEDS[0], shop, forge, part=0.2), storage.ObjectMissing)
