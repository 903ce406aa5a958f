"""`?wait=N` of a workspace: answered as soon as it is as asked for, and not at the steps before (WSP-12)."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections

from dpp_project.waiting.places import places
from ops.workspaces import arrivals
from ops.workspaces.models import Workspace
from ops.workspaces.states import DesiredState, Operation, Phase
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import bearer
from tests.gear.builders.workspace_rows import a_workspace, seen, sold, worked_on
from tests.gear.waiting import wait_until

__all__ = ["sold"]
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.contract("WSP-12"),
    pytest.mark.usefixtures("sold"),
]
HERE = "/v1/workspaces"
THERE: dict[str, Any] = {
    "phase": Phase.RUNNING,
    "desired_state": DesiredState.RUNNING,
    "operation": Operation.NONE,
    "generation": 2,
    "observed_generation": 2,
}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, True),
        ({"phase": Phase.STANDBY}, False),
        ({"operation": Operation.STOPPING}, False),
        ({"observed_generation": 1}, False),
        ({"conditions": {"container": {"reason": "ContainerOutdated"}}}, False),
        ({"phase": Phase.ERROR}, True),
        ({"phase": Phase.STANDBY, "error_info": {"is_terminal": True}}, True),
        ({"phase": Phase.ERROR, "recover_generation": 1}, False),
        ({"phase": Phase.ERROR, "desired_state": DesiredState.DELETED, "discard": True}, False),
        ({"phase": Phase.DELETED, "desired_state": DesiredState.DELETED}, True),
    ],
)
def test_wsp_12_it_has_arrived_where_nothing_more_comes_by_itself(facts: dict[str, Any], *, expected: bool) -> None:
    assert arrivals.has_arrived(Workspace(**(THERE | facts))) is expected


def a_get(shop: Shop, workspace: Workspace, query: str, **headers: str) -> Any:
    return shop.client.get(f"{HERE}/{workspace.pk}{query}", headers=bearer(shop.issued) | headers)


def test_wsp_12_who_waits_is_answered_when_it_has_arrived_and_not_at_a_step_before(shop: Shop) -> None:
    workspace = worked_on(a_workspace(shop.tenant))

    def waiting() -> Any:
        try:
            return a_get(shop, workspace, "?wait=30")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        answer: Future[Any] = pool.submit(waiting)
        wait_until(lambda: places().taken == 1, what="the wait")
        seen(workspace, Phase.STANDBY)
        arrivals.arrivals_watcher().look_once()
        assert not answer.done()
        seen(workspace, Phase.RUNNING)
        response = answer.result(20)
    assert (response.status_code, response.json()["phase"], response.headers["ETag"]) == (200, "RUNNING", '"1"')
    assert places().taken == 0


def test_wsp_12_one_that_is_there_answers_at_once_and_a_wait_that_is_over_as_it_is_then(shop: Shop) -> None:
    workspace = seen(worked_on(a_workspace(shop.tenant)), Phase.RUNNING)
    at_once = a_get(shop, workspace, "", Prefer="wait=30")
    assert (at_once.json()["phase"], at_once.headers["Preference-Applied"]) == ("RUNNING", "wait=30")
    seen(workspace, Phase.STANDBY)
    over = a_get(shop, workspace, "?wait=1")
    assert (over.status_code, over.json()["phase"]) == (200, "STANDBY")
    assert a_get(shop, workspace, "?wait=56").status_code == 422
