"""The console's first page: of a platform that stands still, and of one with nothing in it yet (DPP-75)."""

from datetime import timedelta

import pytest
from django.test import Client

from dpp_project import clock
from dpp_project.console.dashboard import Panel, bad_cell
from dpp_project.jobs import dashboard as jobs_dashboard
from dpp_project.jobs import registry
from dpp_project.jobs.models import JobReport
from runs import dashboard as runs_dashboard
from tests.gear.builders import runs as gear
from tests.gear.builders.busy_account import buys
from tests.gear.builders.console import page
from tests.gear.builders.shop import Shop

pytestmark = [pytest.mark.contract("DPP-75"), pytest.mark.django_db]

RUNS = "/admin/runs/run/"


def figures(panel: Panel | None) -> dict[str, str]:
    assert panel is not None
    return {figure.label: figure.value for figure in panel.figures}


def a_report(job: str, *, ago: timedelta, errors: int = 0) -> JobReport:
    at = clock.now() - ago
    return JobReport.objects.create(job=job, started_at=at, ended_at=at, errors=errors, host="h", pid=1)


def test_the_first_page_of_an_empty_platform_says_what_to_do(console: Client, shop: Shop) -> None:
    shown = page(console, "/admin/")
    assert "First steps" in shown
    panel = runs_dashboard.first_steps_panel()
    assert panel is not None
    assert [row[0] for row in panel.rows] == ["done", "done", "done", "to do", "to do"]
    shop.submit()
    assert runs_dashboard.first_steps_panel() is None
    assert "First steps" not in page(console, "/admin/")


def test_loops_that_do_not_run_are_named_in_red_and_in_words() -> None:
    jobs = list(registry.declared_jobs().values())
    for job in jobs:
        a_report(job.name, ago=timedelta(seconds=1))
    panel = jobs_dashboard.jobs_panel()
    assert (figures(panel)["Overdue"], panel.rows) == ("0", [])
    late = jobs[0]
    JobReport.objects.filter(job=late.name).delete()
    a_report(late.name, ago=timedelta(seconds=late.every_seconds * 3, minutes=2))
    a_report(jobs[1].name, ago=timedelta(0), errors=2)
    panel = jobs_dashboard.jobs_panel()
    assert (figures(panel)["Overdue"], figures(panel)["With errors"]) == ("1", "1")
    assert [figure.is_bad for figure in panel.figures] == [False, True, True]
    said = {row[0]: row[3] for row in panel.rows}
    assert said[late.name].startswith('<span class="dpp-bad">overdue by ')
    assert said[jobs[1].name] == bad_cell("2 errors")
    JobReport.objects.filter(job=late.name).delete()
    assert {row[0]: row[3] for row in jobs_dashboard.jobs_panel().rows}[late.name] == bad_cell("never ran")
    JobReport.objects.exclude(job=jobs[1].name).delete()
    panel = jobs_dashboard.jobs_panel()
    assert len(panel.rows) == jobs_dashboard.OVERDUE_SHOWN + 1 < len(jobs)
    assert panel.rows[-1][0] == jobs[1].name, "as many as are overdue, none that met errors is left out"


def test_the_live_fragment_has_the_figures_and_asks_for_permissions(
    console: Client, client: Client, shop: Shop
) -> None:
    shop.submit()
    fragment = page(console, "/admin/live/")
    assert 'data-live="Runs"' in fragment
    assert "<canvas" not in fragment
    assert "no-cache" in console.get("/admin/live/").headers["Cache-Control"]
    assert client.get("/admin/live/").status_code == 302


def test_latencies_and_failures_are_those_of_the_hour(console: Client, shop: Shop) -> None:
    buys(shop)
    assert figures(runs_dashboard.latency_panel())["Ended"] == "7"
    assert figures(runs_dashboard.failures_panel()) == {"WORKER_TIMEOUT": "1", "CANCELED_BY_OWNER": "1"}
    assert "WORKER_TIMEOUT" in page(console, "/admin/")


def test_the_queue_says_how_long_the_oldest_waits(shop: Shop) -> None:
    assert figures(runs_dashboard.queue_panel())["Oldest run waits"] == "none waits"
    gear.aged(gear.reserved(tenant_id=shop.tenant.tenant_id), created_at=720)
    panel = runs_dashboard.queue_panel()
    assert figures(panel)["Oldest run waits"] == "12 min"
    assert [figure.is_bad for figure in panel.figures] == [False, False, True, False]


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("tenant={tenant}", {"completed", "failed", "disputed", "working", "stuck", "queued", "canceled"}),
        ("tenant=t_nobody", set()),
        ("reason=WORKER_TIMEOUT", {"failed"}),
        ("reason=CANCELED_BY_OWNER&pack=probe", {"canceled"}),
        ("pack=ocr", set()),
        ("pack=a%27b", set()),
        ("money_state__exact=SETTLED&finalize_stage__exact=COMMITTED&reason=WORKER_TIMEOUT", {"failed"}),
        ("status__exact=nonsense", set()),
        ("made=hour&status__exact=QUEUED", {"queued"}),
        ("made=2020-01-01", set()),
        ("made=nonsense", set()),
    ],
)
def test_runs_are_narrowed_by_tenant_pack_reason_and_day(
    console: Client, shop: Shop, query: str, kinds: set[str]
) -> None:
    runs = buys(shop)
    shown = page(console, f"{RUNS}?{query.format(tenant=shop.tenant.tenant_id)}")
    assert {name for name, run in runs.items() if str(run.run_id) in shown} == kinds


def test_a_runs_page_draws_its_life_and_its_money(console: Client, shop: Shop) -> None:
    runs = buys(shop)
    shown = page(console, f"{RUNS}{runs['completed'].run_id}/change/")
    for said in ("finishing", "in all", "Returned", "$0.20", "Who acts next", "charge"):
        assert said in shown
    assert "Overdue" in page(console, f"{RUNS}{gear.aged(runs['stuck'], lease_expires_at=600).run_id}/change/")
    assert "{}" in page(console, f"{RUNS}{runs['completed'].run_id}/change/?result=1")


def test_a_months_statement_of_a_tenant_is_a_file(console: Client, shop: Shop) -> None:
    answer = console.get(f"/admin/budget/account/{shop.tenant.pk}/statement/")
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    answer.close()
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert "TOPUP,10000000,10.000000,10000000" in text
    wrong = console.get(f"/admin/budget/account/{shop.tenant.pk}/statement/?month=2026-13")
    assert wrong.status_code == 302
    assert "statement/?month=" in page(console, f"/admin/budget/account/{shop.tenant.pk}/change/")
