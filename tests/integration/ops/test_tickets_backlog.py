"""One ticket keeps no other waiting, and a cycle ends in its time (TKT-07)."""

from typing import Any

import pytest

from dpp_project import clock
from dpp_project.jobs import deadline
from ops.tickets import cycle, transitions
from tests.gear.builders import tickets as gear
from tests.gear.builders.shop import Shop

pytestmark = [pytest.mark.contract("TKT-07")]


def test_tkt_07_a_ticket_that_cannot_be_taken_keeps_no_other_from_being_worked_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant_id, take = {"tenant_id": shop.tenant.tenant_id}, transitions.take_ticket
    bad, good = gear.opened(payload=tenant_id), gear.opened(payload=tenant_id)

    def breaks(**values: Any) -> Any:
        if values["request_id"] == bad.pk:
            raise ValueError
        return take(**values)

    with monkeypatch.context() as patch:
        patch.setattr(transitions, "take_ticket", breaks)
        document = cycle.run_cycle(now=clock.now(), limit=10).document
    assert document["steps"][-1] == {
        "step": "1", "name": "ticket_processing", "status": "FAILED", "note": f"1 skipped: {bad.pk}"
    }  # fmt: skip
    assert [gear.row(one.pk).status for one in (bad, good)] == ["OPEN", "DONE"]


def test_tkt_07_a_cycle_ends_at_its_deadline_and_the_next_goes_on(shop: Shop) -> None:
    tickets = [gear.opened(payload={"tenant_id": shop.tenant.tenant_id}) for _ in range(3)]
    with deadline.within_deadline(deadline.Pass(seconds=0)):
        cycle.run_cycle(now=clock.now(), limit=10)
    assert [gear.row(one.pk).status for one in tickets] == ["DONE", "OPEN", "OPEN"]
    cycle.run_cycle(now=clock.now(), limit=10)
    assert [gear.row(one.pk).status for one in tickets] == ["DONE", "DONE", "DONE"]
