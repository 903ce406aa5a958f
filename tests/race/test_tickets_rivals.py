"""Between any two effects of a processor somebody else comes by: another cycle resumes its ticket, or it is reaped.

Each ticket ends once all the same, and what it asks for is done once: by whoever came first.
"""

from collections.abc import Callable
from typing import Final

import pytest

from ops.tickets import cycle
from ops.tickets.models import Ticket, TicketResult
from ops.tickets.states import ENDED, RequestType, TicketStatus
from ops.tickets.transitions import EdgeOutcome
from tests.gear.builders import tickets as gear
from tests.gear.builders.shop import Shop, top_up
from tests.gear.faults import ticket_scenes
from tests.gear.faults.interruption import Interruption, interrupted
from tests.gear.faults.scenes import quick_surroundings
from tests.gear.faults.ticket_scenes import DEEDS, Deed, TicketScene
from tests.proving import proofs

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.contract("TKT-01", "TKT-03"),
    pytest.mark.usefixtures("quick_surroundings"),
]
__all__ = ["quick_surroundings"]

EFFECTS_MAX: Final = 60


def another_cycle(ticket: Ticket) -> None:
    """As if five minutes had passed, or, of one that nobody has taken, at the same time."""
    found = gear.row(ticket.pk)
    if found.status not in ENDED:
        cycle.work_on(found)


def the_reaper(ticket: Ticket) -> None:
    found = gear.row(ticket.pk)
    if found.status == TicketStatus.IN_PROGRESS:
        assert gear.clean(found) is EdgeOutcome.WON


def overtaken(scene: TicketScene, rival: Callable[[Ticket], None], *, at: int) -> bool:
    """Whether there was an effect with that number to come before."""
    interruption = Interruption(at=at, rival=lambda: rival(scene.ticket))
    with interrupted(interruption):
        cycle.work_on(scene.ticket)
    return interruption.struck


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rival", [another_cycle, the_reaper])
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.name)
def test_tkt_03_whoever_comes_between_the_deed_is_done_once(
    shop: Shop, deed: Deed, rival: Callable[[Ticket], None], every: int
) -> None:
    """Before each effect; `make test` takes each ninth, of each deed from another one on."""
    top_up(shop.tenant, 10**11)
    met = 0
    in_one_transaction = deed.request_type in {RequestType.EXECUTION_ENABLE, RequestType.EXECUTION_DISABLE}
    first = 0 if in_one_transaction else DEEDS.index(deed) % min(every, 2)
    for at in range(first, EFFECTS_MAX, every):
        scene = ticket_scenes.begin(deed, shop)
        gear.clean(scene.stale)
        if not overtaken(scene, rival, at=at):
            break
        met += 1
        if gear.row(scene.ticket.pk).status not in ENDED:  # both put it off
            cycle.work_on(gear.row(scene.ticket.pk))
        ticket_scenes.everybody_recovers(scene)
        ticket_scenes.deed_done_once(scene)
        by = TicketResult.objects.get(ticket_id=scene.ticket.pk).processor_id
        assert by == cycle.PROCESSOR_ID or rival is the_reaper, by
    assert met >= (1 if in_one_transaction or every > 1 else 2), met
    proofs.report(cases=met)
