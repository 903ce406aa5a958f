"""Whatever dies, is lost, comes twice or comes late at any effect of a workspace's life: no byte, and nothing left."""

import pytest
from django.db import transaction

from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.workspace_world import World
from tests.gear.faults.strikes import Fault, Strike
from tests.gear.faults.workspace_lives import Life, faults_at
from tests.proving import proofs

pytestmark = [pytest.mark.contract("WSP-07"), pytest.mark.django_db]

EFFECTS_OF_A_LIFE = 32


def struck(at: int, fault: Fault, late_after: int | None) -> Strike:
    """One life with one fault, of which nothing stays in the database."""
    strike = Strike(at=at, fault=fault)
    try:
        with transaction.atomic():
            Life(World(a_tenant()), strike, late_after=late_after).run()
            transaction.set_rollback(True)
    except AssertionError as error:
        raise AssertionError(f"effect {at} ({strike.struck}), {fault.value}, late after {late_after}") from error
    return strike


SAMPLE = (
    (3, "start", Fault.LATE, 1),
    (7, "place_placeholder", Fault.LATE, 3),
    (8, "upload", Fault.ANSWER_LOST, None),
    (13, "import_", Fault.LATE, 1),
    (10, "delete_volume", Fault.TWICE, None),
)


@pytest.mark.parametrize(("at", "effect", "fault", "late_after"), SAMPLE)
def test_wsp_07_a_fault_loses_nothing(at: int, effect: str, fault: Fault, late_after: int | None) -> None:
    strike = struck(at, fault, late_after)
    assert (strike.struck, len(strike.calls) >= EFFECTS_OF_A_LIFE) == (effect, True)


@pytest.mark.slow
@pytest.mark.parametrize("at", range(EFFECTS_OF_A_LIFE))
def test_wsp_07_an_effect_with_each_fault(at: int) -> None:
    cases = faults_at(at)
    met = [struck(*case).struck for case in cases]
    assert None not in met
    proofs.report(cases=len(cases))
