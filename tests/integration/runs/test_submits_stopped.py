"""New runs stopped for one tenant or for all, and what the console calls a stop (HRD-23)."""

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dpp_project import clock
from dpp_project.audit.models import AuditEntry
from dpp_project.jobs.models import JobReport
from ops.tickets import emergency
from tenants import authentication, services
from tenants.models import Tenant
from tests.gear.builders.console import page
from tests.gear.builders.shop import Shop, a_shop
from tests.gear.builders.tenants import an_operator_key

pytestmark = [pytest.mark.contract("HRD-23"), pytest.mark.usefixtures("shop")]
TENANTS = "/admin/tenants/tenant/"


@pytest.fixture(autouse=True)
def _operator(shop: Shop) -> None:
    an_operator_key()


def seconds_pass() -> None:
    authentication.memory.forget()


def submit(shop: Shop, *, key: str | None = None) -> tuple[int, str]:
    seconds_pass()
    answer = shop.submit(key=key)
    return answer.status_code, str(answer.json().get("reason_code", ""))


def test_hrd_23_submits_of_all_are_stopped_and_taken_again(shop: Shop, console: Client) -> None:
    other = a_shop()
    assert submit(shop, key="accepted-before-it") == (202, "")
    assert "stop_all_submits" in page(console, TENANTS)
    asked = page(console, f"{TENANTS}stop_all_submits/")
    assert "EXECUTION_DISABLED within 5 seconds" in asked
    assert submit(other) == (202, ""), "asking changes nothing"
    assert console.post(f"{TENANTS}stop_all_submits/", {"reason": "wrong prices"}).status_code == 302
    for one in (shop, other, a_shop()):
        assert submit(one) == (403, "EXECUTION_DISABLED")
        assert one.get("/v1/runs").status_code == 200
    assert submit(shop, key="accepted-before-it") == (202, ""), "its receipt"
    assert len(shop.runs()) == 1
    entry = AuditEntry.objects.get(act="all submits stopped")
    assert (entry.actor, entry.reason, entry.after) == ("operator:ada", "wrong prices", {"submits_enabled": False})
    shown = page(console, TENANTS)
    assert "resume_all_submits" in shown
    assert "stop_all_submits" not in shown
    assert "TAKEN" not in shown, "of no tenant"
    assert "stopped for all" in page(console, "/admin/")
    assert console.post(f"{TENANTS}resume_all_submits/", {"reason": "mended"}).status_code == 302
    assert submit(shop) == (202, "")


def test_hrd_23_submits_of_one_tenant_are_stopped_and_stay_so_when_all_are_taken_again(
    shop: Shop, console: Client
) -> None:
    other, path = a_shop(), f"{TENANTS}{shop.tenant.pk}/"
    assert "resume_submits" not in page(console, f"{path}change/")
    assert console.post(f"{path}stop_submits/", {"reason": ""}).status_code == 200
    assert submit(shop) == (202, "")
    console.post(f"{path}stop_submits/", {"reason": "a loop"})
    assert (submit(shop), submit(other)) == ((403, "EXECUTION_DISABLED"), (202, ""))
    assert "STOPPED" in page(console, TENANTS)
    services.stop_all_submits(stopped=True, actor="operator:bob", reason="drill")
    services.stop_all_submits(stopped=False, actor="operator:bob", reason="over")
    assert (submit(shop), submit(other)) == ((403, "EXECUTION_DISABLED"), (202, ""))
    console.post(f"{path}resume_submits/", {"reason": "mended"})
    assert submit(shop) == (202, "")


def command(*arguments: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command("submits", *arguments, "--json", stdout=out)
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


def test_hrd_23_submits_are_stopped_by_command(shop: Shop) -> None:
    tenant_id = shop.tenant.tenant_id
    for wrong in (("stop", "--all"), ("stop", "--tenant", "t_nobody", "--reason", "x"), ("status", "--tenant", "t_x")):
        with pytest.raises(CommandError):
            command(*wrong)
    assert command("stop", "--all", "--reason", "drill", "--dry-run")["dry_run"] is True
    assert submit(shop) == (202, "")
    assert command("stop", "--tenant", tenant_id, "--reason", "a loop")["submits_enabled"] is False
    assert command("status", "--all") == {"all_stopped": False, "stopped_alone": [tenant_id], "dry_run": False}
    assert submit(shop) == (403, "EXECUTION_DISABLED")
    command("resume", "--tenant", tenant_id, "--reason", "mended")
    command("stop", "--all", "--reason", "drill")
    assert submit(shop) == (403, "EXECUTION_DISABLED")
    command("resume", "--all", "--reason", "over")
    assert submit(shop) == (202, "")


def test_hrd_23_the_operators_own_page_stops_no_submits_by_itself(console: Client) -> None:
    shown = page(console, f"{TENANTS}t_operator/change/")
    assert "stop_submits" not in shown
    console.post(f"{TENANTS}t_operator/stop_submits/", {"reason": "by hand"})
    assert Tenant.objects.get(pk="t_operator").submits_enabled is True


def test_hrd_23_the_stop_of_the_ticket_cycle_is_named_so_and_red_when_it_stands(shop: Shop, console: Client) -> None:
    path = "/admin/tickets/emergencyswitch/"
    emergency.turn_emergency_stop(on=True, actor="operator:ada", reason="drill")
    shown = page(console, path)
    assert "top everything" not in shown + page(console, f"{path}add/")
    assert "Stop the ticket cycle" in page(console, f"{path}add/")
    assert "STOPPED" in shown
    assert submit(shop) == (202, ""), "it stops the cycle alone"
    emergency.turn_emergency_stop(on=False, actor="operator:ada", reason="over")
    assert "RUNNING" in page(console, path)


def test_hrd_23_an_ordinary_job_report_carries_no_cross(console: Client) -> None:
    for dry_run in (False, True):
        JobReport.objects.create(job="ops_cycle", started_at=clock.now(), dry_run=dry_run, host="h", pid=1)
    shown = page(console, "/admin/jobs/jobreport/").split('id="result_list"')[-1]
    assert shown.count(">dry run<") + shown.count("dry run\n") >= 1
    assert "icon-no" not in shown
    assert "close</span>" not in shown
