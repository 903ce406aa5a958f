"""Commands in a workspace: over HTTP, and as runs that are sold by the second."""

import asyncio
import io
import json
import secrets
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from ops.workspaces import offer
from ops.workspaces.models import Workspace, WorkspaceAccess
from ops.workspaces.offer import Offer
from ops.workspaces.states import DesiredState, Operation, Phase, Writer
from ops.workspaces.using import RunCommands
from runs.models import Run
from runs.packs.command import SECOND_MICROS
from runs.packs.pack import CommandAsked, EngineUnavailable
from runs.states import Status
from tenants.scopes import TENANT_SCOPES, Scope
from tests.gear.builders.shop import RUNS, Shop, a_shop
from tests.gear.builders.tenants import a_key
from tests.gear.builders.work import execute, stored_envelope
from tests.gear.builders.workspace_hosts import WorkspaceHost, a_workspace_host
from tests.gear.builders.workspace_rows import a_driver, a_workspace, an_archive, seen, worked_on, written
from tests.gear.waiting import wait_until
from tests.integration.workspaces.test_workspaces_api import HERE, errors, send, told

pytestmark = pytest.mark.django_db(transaction=True)
ECHO = {"argv": ["/bin/sh", "-c", "cat; echo wrong >&2; exit 3"], "stdin": "given"}


@pytest.fixture(scope="module")
def host() -> Iterator[WorkspaceHost]:
    with a_workspace_host() as made:
        yield made


@pytest.fixture
def workspace(shop: Shop, host: WorkspaceHost, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """It runs at the host, as the loops would say."""
    monkeypatch.setattr(offer, "current_workspace_offer", lambda: Offer("process"))
    monkeypatch.setattr("dpp_project.uuid7.new_uuid7", lambda: host.workspace_id)
    made = a_workspace(shop.tenant)
    monkeypatch.undo()
    worked_on(made)
    a_driver(address=host.address)
    return seen(made, Phase.RUNNING)


def ran(shop: Shop, workspace: Workspace, **body: Any) -> Any:
    return send(shop, "POST", f"{HERE}/{workspace.pk}/exec", body)


@pytest.mark.contract("WSP-12")
def test_wsp_12_a_command_is_answered_as_it_ended(shop: Shop, workspace: Workspace) -> None:
    response = ran(shop, workspace, **ECHO)
    assert response.status_code == 200, response.content
    answer = response.json()
    assert 0 < answer.pop("seconds") < 10
    assert answer == {
        "ended": "exited",
        "exit_code": 3,
        "stdout": "given",
        "stderr": "wrong\n",
        "stdout_cut": False,
        "stderr_cut": False,
    }
    assert response.headers["X-Trace-Id"]
    late = ran(shop, workspace, argv=["/bin/sleep", "30"], deadline_sec=1).json()
    assert (late["ended"], late["exit_code"]) == ("deadline", None)


@pytest.mark.contract("WSP-12")
def test_wsp_12_the_log_is_read_on(shop: Shop, workspace: Workspace) -> None:
    page = send(shop, "GET", f"{HERE}/{workspace.pk}/logs").json()
    assert page == {"content": "it began\n", "next_offset": 9, "dropped": False}
    assert send(shop, "GET", f"{HERE}/{workspace.pk}/logs?offset=3&limit=2").json()["content"] == "be"


@pytest.mark.contract("WSP-12")
def test_wsp_12_the_command_reads_the_log_on(shop: Shop, workspace: Workspace) -> None:
    before = WorkspaceAccess.objects.values_list("last_access_at", flat=True).get()

    def told_by(*words: str) -> tuple[str, str]:
        out, err = io.StringIO(), io.StringIO()
        call_command("workspace", "logs", str(workspace.pk), *words, stdout=out, stderr=err)
        return out.getvalue(), err.getvalue()

    assert told_by() == ("it began\n", "It goes on at --offset 9.\n")
    page = json.loads(told_by("--offset", "3", "--bytes", "2", "--json")[0])
    assert (page["content"], page["next_offset"], page["dropped"]) == ("be", 5, False)
    assert WorkspaceAccess.objects.values_list("last_access_at", flat=True).get() == before, "a look is no use"
    for words, said in (
        (("--offset", "-1"), "--offset: must be 0 or more"),
        (("--bytes", "262145"), "--bytes: must be 1 to 262144"),
    ):
        with pytest.raises(CommandError, match=said):
            told_by(*words)
    for address, said in (("", "its host has not come up"), ("127.0.0.1:1", "does not answer")):
        a_driver(address=address)
        with pytest.raises(CommandError, match=said):
            told_by()


@pytest.mark.contract("WSP-12")
@pytest.mark.parametrize(
    ("wrong", "field", "said"),
    [
        ({"argv": []}, "argv", "at least 1"),
        ({"argv": [""]}, "argv", "must not be empty"),
        ({"argv": ["a\0"]}, "argv[0]", "U+0000"),
        ({"argv": "ls"}, "argv", "list"),
        ({"argv": ["true"], "deadline_sec": 11}, "deadline_sec", "less than or equal to 10"),
        ({"argv": ["true"], "env": {"DPP_KEY": "x"}}, "env", "the platform's"),
        ({"argv": ["true"], "cwd": "/"}, "cwd", "unknown"),
    ],
)
def test_wsp_12_a_wrong_command_is_refused_by_its_field(
    shop: Shop, workspace: Workspace, wrong: dict[str, Any], field: str, said: str
) -> None:
    assert said in errors(ran(shop, workspace, **wrong))[field]


@pytest.mark.contract("WSP-12")
def test_wsp_12_nobody_elses_workspace_runs_a_command(shop: Shop, workspace: Workspace) -> None:
    other = a_shop()
    for path, method in (("exec", "POST"), ("logs", "GET")):
        response = send(other, method, f"{HERE}/{workspace.pk}/{path}", ECHO if method == "POST" else None)
        assert told(response) == (404, "NOT_FOUND")
    reader = Shop(shop.tenant, a_key(shop.tenant, scopes={Scope.WORKSPACES_READ}))
    assert told(ran(reader, workspace, **ECHO)) == (403, "SCOPE_MISSING")


@pytest.mark.contract("WSP-12")
def test_wsp_12_one_that_rests_is_woken_and_one_in_error_is_not(shop: Shop, workspace: Workspace) -> None:
    with_rest = written(workspace, Writer.API, desired_state=DesiredState.STANDBY)
    seen(with_rest, Phase.STANDBY)
    response = ran(shop, workspace, **ECHO)
    assert told(response) == (409, "WORKSPACE_WAKING")
    assert response.headers["Retry-After"] == "1"
    woken = Workspace.objects.get()
    assert (woken.desired_state, woken.generation) == (DesiredState.RUNNING, workspace.generation + 1)
    assert told(ran(shop, workspace, **ECHO)) == (409, "WORKSPACE_WAKING")
    assert Workspace.objects.get().generation == woken.generation, "it was asked for already"
    seen(woken, Phase.ERROR)
    response = ran(shop, workspace, **ECHO)
    assert told(response) == (409, "CONFLICT")
    assert "VolumeLost" in response.json()["detail"]


@pytest.mark.contract("WSP-12")
@pytest.mark.parametrize(("tar_bytes", "seconds"), [(1, "2"), (120_000_000, "4"), (15_000_000_000, "30")])
def test_wsp_12_one_in_the_archive_is_to_be_asked_for_when_it_may_be_there(
    shop: Shop, workspace: Workspace, tar_bytes: int, seconds: str
) -> None:
    archive = an_archive(workspace, tar_bytes=tar_bytes)
    written(workspace, Writer.API, desired_state=DesiredState.ARCHIVED)
    seen(worked_on(workspace, archive_key=archive.pk), Phase.ARCHIVED)
    for _ in range(2):
        assert ran(shop, workspace, **ECHO).headers["Retry-After"] == seconds


@pytest.mark.contract("WSP-12")
def test_wsp_12_a_host_that_is_away_is_said(shop: Shop, workspace: Workspace) -> None:
    for address in ("", "127.0.0.1:1"):
        a_driver(address=address)
        response = ran(shop, workspace, **ECHO)
        assert told(response) == (503, "SERVICE_UNAVAILABLE")
        assert response.headers["Retry-After"] == "2"


@pytest.mark.contract("WSP-12")
def test_wsp_12_a_use_is_written_down_and_a_look_is_none(shop: Shop, workspace: Workspace) -> None:
    long_ago = "2026-01-01T00:00:00Z"
    WorkspaceAccess.objects.update(last_access_at=long_ago)
    send(shop, "GET", f"{HERE}/{workspace.pk}/logs")
    send(shop, "GET", f"{HERE}/{workspace.pk}")
    assert WorkspaceAccess.objects.get().last_access_at.isoformat() == "2026-01-01T00:00:00+00:00"
    ran(shop, workspace, argv=["/bin/true"])
    assert WorkspaceAccess.objects.get().last_access_at.year > 2025


# As a run.


def submitted(shop: Shop, workspace_id: object, **changes: Any) -> Any:
    inputs = {"workspace_id": str(workspace_id), **ECHO, "deadline_sec": 20} | changes
    body = {"pack_type": "command", "inputs": inputs, "reservation": {"max_cost_usd": "0.0100", "timebox_sec": 30}}
    return send(shop, "POST", RUNS, body, **{"Idempotency-Key": secrets.token_hex(8)})


@pytest.mark.contract("WSP-13")
def test_wsp_13_a_command_is_sold_by_the_second_whatever_its_exit_code(
    shop: Shop, workspace: Workspace, worker_here: object
) -> None:
    left = shop.balance_micros()
    accepted = submitted(shop, workspace.pk)
    assert accepted.status_code == 202, accepted.content
    run = Run.objects.get(run_id=accepted.json()["run_id"])
    execute(run)
    run.refresh_from_db()
    assert (run.status, run.actual_cost_usd_micros) == (Status.COMPLETED, SECOND_MICROS)
    assert shop.balance_micros() == left - SECOND_MICROS
    assert shop.holds() == {}
    data = stored_envelope(run)["data"]
    assert (data["ended"], data["exit_code"], data["stdout"], data["stderr"]) == ("exited", 3, "given", "wrong\n")


@pytest.mark.contract("WSP-13")
def test_wsp_13_whose_workspace_is_stopped_under_it_is_sold(
    shop: Shop, workspace: Workspace, host: WorkspaceHost, worker_here: object
) -> None:
    """Who could stop it at its last second, and have all of them back, would work for nothing."""
    left = shop.balance_micros()
    accepted = submitted(shop, workspace.pk, argv=["/bin/sh", "-c", "trap '' TERM; touch begun; sleep 60"], stdin="")
    run = Run.objects.get(run_id=accepted.json()["run_id"])
    begun = host.driver._volumes.home(host.volume) / "begun"

    def stop() -> None:
        wait_until(begun.exists, what="it to begin")
        host.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    try:
        execute(run)
    finally:
        stopper.join()
        host.start()
    run.refresh_from_db()
    assert (run.status, stored_envelope(run)["data"]["ended"]) == (Status.COMPLETED, "killed")
    assert left - shop.balance_micros() == run.actual_cost_usd_micros
    assert run.actual_cost_usd_micros is not None
    assert run.actual_cost_usd_micros >= SECOND_MICROS


@pytest.mark.contract("WSP-13")
def test_wsp_13_a_run_begins_its_command_once(shop: Shop, workspace: Workspace, worker_here: object) -> None:
    """A worker that died with it left a run that another ends; should one begin it again, the workspace refuses."""
    mark = f"once-{uuid.uuid4().hex}"
    accepted = submitted(shop, workspace.pk, argv=["/bin/sh", "-c", f"echo x >>{mark}"], stdin="")
    run = Run.objects.get(run_id=accepted.json()["run_id"])
    execute(run)
    asked = CommandAsked(
        workspace_id=str(workspace.pk), argv=("/bin/sh", "-c", f"echo x >>{mark}"), stdin=b"", deadline_seconds=5
    )
    again = RunCommands().command(tenant_id=shop.tenant.tenant_id, exec_id=str(run.run_id), asked=asked)
    with pytest.raises(EngineUnavailable, match="started before"):
        asyncio.run(again.run(seconds=5))
    assert ran(shop, workspace, argv=["/bin/cat", mark]).json()["stdout"] == "x\n"


@pytest.mark.contract("WSP-13")
def test_wsp_13_one_asleep_at_its_start_costs_nothing(
    shop: Shop, workspace: Workspace, host: WorkspaceHost, worker_here: object
) -> None:
    left = shop.balance_micros()
    run = Run.objects.get(run_id=submitted(shop, workspace.pk).json()["run_id"])
    host.stop()
    try:
        execute(run)
    finally:
        host.start()
    run.refresh_from_db()
    assert (run.status, run.last_error_reason_code) == (Status.FAILED, "ENGINE_UNAVAILABLE")
    assert shop.balance_micros() == left


@pytest.mark.contract("WSP-13")
def test_wsp_13_a_submit_is_refused_before_anything_is_held(shop: Shop, workspace: Workspace) -> None:
    left = shop.balance_micros()
    narrow = Shop(shop.tenant, a_key(shop.tenant, scopes=TENANT_SCOPES - {Scope.WORKSPACES_WRITE}))
    assert told(submitted(narrow, workspace.pk)) == (403, "SCOPE_MISSING")
    for other in (uuid.uuid4(), a_foreign_workspace()):
        assert "no such workspace" in errors(submitted(shop, other))["inputs.workspace_id"]
    assert "at least 43" in errors(submitted(shop, workspace.pk, deadline_sec=40))["reservation.timebox_sec"]
    worked_on(
        workspace,
        operation=Operation.STOPPING,
        op_id=uuid.uuid4(),
        op_attempt=1,
        op_started_at="2026-01-01T00:00:00Z",
        op_lease_until="2026-01-01T00:00:00Z",
    )
    response = submitted(shop, workspace.pk)
    assert told(response) == (409, "WORKSPACE_WAKING")
    assert response.headers["Retry-After"] == "1"
    assert (shop.balance_micros(), shop.holds(), Run.objects.count()) == (left, {}, 0)


def a_foreign_workspace() -> uuid.UUID:
    other = a_shop()
    return Workspace.objects.create(workspace_id=uuid.uuid4(), tenant=other.tenant, name="theirs").pk
