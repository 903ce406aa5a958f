"""Workspaces as operators see them: pages, board, first page, command. What each act does stands with the services."""

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from redis import Redis

from dpp_project import clock
from ops.workspaces import board, dashboard
from ops.workspaces.models import Workspace
from ops.workspaces.specs import SpecDocument
from ops.workspaces.states import DesiredState, Phase
from tenants.models import Tenant
from tests.gear.builders.console import page
from tests.gear.builders.tenants import a_tenant
from tests.gear.builders.workspace_rows import a_driver, a_volume, a_workspace, an_archive, seen, sold, worked_on

__all__ = ["sold"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sold"), pytest.mark.contract("WSP-12")]
ADMIN = "/admin/workspaces/workspace"


@pytest.fixture
def tenant(db: None, valkey: Redis) -> Tenant:
    return a_tenant()


def command(*arguments: str) -> Any:
    out = io.StringIO()
    call_command("workspace", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_wsp_12_the_command_lists_shows_and_acts(tenant: Tenant) -> None:
    spec = SpecDocument(env={"TOKEN": "s3cr3t"})
    workspace = a_workspace(tenant, name="build", spec=spec, desired_state=DesiredState.STANDBY)
    other = a_workspace(a_tenant(), name="other")
    assert [one["name"] for one in command("list")["workspaces"]] == ["other", "build"]
    assert [one["name"] for one in command("list", "--tenant", tenant.tenant_id)["workspaces"]] == ["build"]
    seen(other, Phase.ERROR)
    (shown,) = command("list", "--phase", "ERROR")["workspaces"]
    assert (shown["workspace_id"], shown["next"]["actor"]) == (str(other.pk), "you")
    archive = an_archive(workspace)
    assert command("start", str(workspace.pk), "--dry-run")["desired_state"] == "RUNNING"
    assert Workspace.objects.get(pk=workspace.pk).desired_state == "STANDBY"
    assert command("start", str(workspace.pk))["desired_state"] == "RUNNING"
    assert Workspace.objects.get(pk=workspace.pk).desired_state == "RUNNING"
    whole = command("show", str(workspace.pk))
    assert [one["archive_key"] for one in whole["archives"]] == [archive.pk]
    assert [(one["kind"], one["actor"]) for one in whole["events"]] == [
        ("Changed", "command"),
        ("Created", "owner:dpp_test"),
    ]
    assert whole["env"] == ["TOKEN"]
    assert "s3cr3t" not in json.dumps(whole)
    a_driver(frozen_at=clock.now(), frozen_reason="VolumesVanished")
    assert command("drivers")["drivers"][0]["frozen_reason"] == "VolumesVanished"
    assert command("release", "local")["frozen_at"] is None


def test_wsp_12_the_command_refuses_by_the_argument_at_fault(tenant: Tenant) -> None:
    workspace = seen(a_workspace(tenant), Phase.ERROR)
    for arguments, said in (
        (("show", "none"), "subject: there is no such workspace; see workspace list"),
        (("recover", str(workspace.pk), "--from", "hope"), "--from: must be recheck, empty, or archive:"),
        (("delete", str(workspace.pk)), "discard: it is in ERROR"),
        (("release", "none"), "driver_id: there is no such driver"),
    ):
        with pytest.raises(CommandError, match=said):
            call_command("workspace", *arguments, stdout=io.StringIO(), stderr=io.StringIO())
    assert Workspace.objects.get().generation == 1


def test_wsp_12_the_board_puts_each_workspace_into_the_column_of_its_phase(tenant: Tenant, console: Client) -> None:
    at = clock.now()
    idle, at_work, wrong = (a_workspace(tenant, name=name) for name in ("idle", "at-work", "wrong"))
    lease = {"op_id": idle.pk, "op_attempt": 1, "op_lease_until": at + timedelta(minutes=1)}
    worked_on(at_work, operation="RESTORING", op_step="fill", op_started_at=at - timedelta(minutes=7), **lease)
    seen(at_work, Phase.ARCHIVED)
    seen(idle, Phase.RUNNING)
    seen(wrong, Phase.ERROR)
    cards = {column.phase: column.cards for column in board.board_columns(now=at)}
    assert [card.workspace.name for card in cards[Phase.RUNNING]] == ["idle"]
    (card,) = cards[Phase.ARCHIVED]
    assert (card.doing, card.age, card.reason) == ("RESTORING: fill", "7 min", "")
    (card,) = cards[Phase.ERROR]
    assert (card.doing, card.reason) == ("→ RUNNING", "VolumeLost")
    shown = page(console, f"{ADMIN}/board/")
    for text in ("idle", "at-work", "wrong", "RESTORING: fill", "VolumeLost", f"{ADMIN}/{wrong.pk}/change/"):
        assert text in shown
    figures = {figure.label: figure.value for figure in dashboard.workspaces_panel().figures}
    assert figures == {
        "Running": "1",
        "Standby": "0",
        "Archived": "1",
        "Error": "1",
        "At work": "1",
        "Frozen drivers": "0",
    }


def test_wsp_12_a_page_tells_all_of_a_workspace_but_the_values_of_its_environment(
    tenant: Tenant, console: Client
) -> None:
    workspace = a_workspace(tenant, name="build", spec=SpecDocument(env={"TOKEN": "s3cr3t"}))
    worked_on(seen(workspace, Phase.STANDBY))
    volume, archive = a_volume(workspace), an_archive(workspace)
    shown = page(console, f"{ADMIN}/{workspace.pk}/change/")
    for text in ("build", "STARTING comes next", volume.pk, archive.pk, "Created", "TOKEN"):
        assert text in shown
    assert "s3cr3t" not in shown
    assert archive.pk in page(console, f"{ADMIN}/{workspace.pk}/recover/")
    assert "Find the disk first" in page(console, "/admin/workspaces/workspacedriver/local/release/")
