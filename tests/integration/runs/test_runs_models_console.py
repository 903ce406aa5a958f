"""Runs in the console and in the metrics: found, followed, disputed, counted (DPP-74, DPP-75)."""

import uuid
from typing import Any

import pytest
import redis as redis_library
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client

from budget.rebuild import rebuild
from dpp_project.console import dashboard
from dpp_project.observe import metrics
from runs import metrics as run_metrics
from runs import run_ids
from runs.models import Run, RunDispute
from tests.gear.builders import runs as gear
from tests.gear.builders.console import page

RUNS = "/admin/runs/run/"


def listed(console: Client, query: str) -> set[uuid.UUID]:
    response = console.get(f"{RUNS}?{query}")
    assert response.status_code == 200
    return {run.run_id for run in response.context["cl"].result_list}


@pytest.mark.contract("DPP-75")
def test_dpp_75_runs_are_listed_newest_first_and_filtered(console: Client) -> None:
    runs = {state: getattr(gear, state)() for state in ("reserved", "working", "committed", "disputed")}
    response = console.get(RUNS)
    assert [run.run_id for run in response.context["cl"].result_list] == [
        run.run_id for run in reversed(list(runs.values()))
    ]
    assert listed(console, "status__exact=PROCESSING") == {runs["working"].run_id}
    assert listed(console, "money_state__exact=DISPUTED") == {runs["disputed"].run_id}


@pytest.mark.contract("DPP-75")
@pytest.mark.parametrize("by", ["run_id", "tenant_id", "idempotency_key", "trace_id"])
def test_dpp_75_a_run_is_found_by_its_ids(console: Client, by: str) -> None:
    run = gear.reserved(idempotency_key="the-key-of-this-one", trace_id="the-trace-of-this-one")
    gear.reserved()
    assert listed(console, f"q={getattr(run, by)}") == {run.run_id}
    assert listed(console, "q=nothing-such") == set()


@pytest.mark.contract("DPP-75", "DPP-47")
@pytest.mark.parametrize("state", ["accepted", "reserved", "working", "claimed", "committed", "disputed", "expired"])
def test_dpp_75_a_runs_page_tells_it_in_words_with_its_timeline(console: Client, state: str) -> None:
    run = getattr(gear, state)(inputs={"question": "a-secret-canary"})
    shown = page(console, f"{RUNS}{run.run_id}/change/")
    assert "Who acts next:" in shown
    for version, status, money_state, stage, actor in gear.timeline(run.run_id):
        assert (
            f"<td>{version}</td><td>{status} {money_state}{' ' + stage if stage else ''}</td><td>{actor}</td>" in shown
        )
    assert "a-secret-canary" not in shown


@pytest.mark.contract("DPP-75")
def test_dpp_75_a_run_is_neither_made_changed_nor_deleted_by_hand(console: Client) -> None:
    run = gear.committed()
    before = gear.everything(run.run_id)
    assert console.get(f"{RUNS}add/").status_code == 403
    assert console.post(f"{RUNS}{run.run_id}/change/", {"status": "FAILED"}).status_code == 403
    assert console.post(f"{RUNS}{run.run_id}/delete/", {"post": "yes"}).status_code == 403
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-75")
def test_dpp_75_an_unknown_run_leads_back(console: Client) -> None:
    assert console.get(f"{RUNS}{uuid.uuid4()}/change/").status_code == 302
    assert console.get(f"{RUNS}{uuid.uuid4()}/dispute/").status_code == 404


@pytest.mark.contract("DPP-58", "DPP-75")
def test_dpp_58_an_operator_disputes_and_refunds_in_the_console(
    client: Client, transactional_db: None, valkey: redis_library.Redis
) -> None:
    client.force_login(User.objects.create_superuser("ada"))
    run = gear.committed()
    rebuild.rebuild_all()
    asked = page(client, f"{RUNS}{run.run_id}/dispute/")
    assert "Dispute the charge" in asked
    assert gear.row(run.run_id).money_state == "SETTLED"
    assert client.post(f"{RUNS}{run.run_id}/dispute/", {"reason": "wrong answer"}).status_code == 302
    assert client.post(f"{RUNS}{run.run_id}/refund/", {"reason": "our mistake"}).status_code == 302
    assert gear.row(run.run_id).money_state == "REFUNDED"
    assert list(RunDispute.objects.order_by("version").values_list("step", "actor", "reason")) == [
        ("OPENED", "operator:ada", "wrong answer"),
        ("REFUNDED", "operator:ada", "our mistake"),
    ]
    assert LogEntry.objects.filter(object_id=str(run.run_id), user__username="ada").count() == 2
    assert "our mistake" in page(client, f"{RUNS}{run.run_id}/change/")


@pytest.mark.contract("DPP-58", "DPP-75")
def test_dpp_58_without_a_reason_nothing_is_disputed(console: Client) -> None:
    run = gear.committed()
    before = gear.everything(run.run_id)
    response = console.post(f"{RUNS}{run.run_id}/dispute/", {"reason": " "})
    assert response.status_code == 200
    assert "reason" in response.context["form"].errors
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-58", "DPP-75")
def test_dpp_58_what_does_not_fit_is_refused_and_not_offered(console: Client) -> None:
    run = gear.committed()
    before = gear.everything(run.run_id)
    assert console.post(f"{RUNS}{run.run_id}/refund/", {"reason": "our mistake"}).status_code == 302
    assert gear.everything(run.run_id) == before
    shown = page(console, f"{RUNS}{run.run_id}/change/")
    assert "open a dispute first" in shown
    assert f"{run.run_id}/dispute" in shown
    assert f"{run.run_id}/refund" not in shown


@pytest.mark.contract("DPP-58", "DPP-75")
def test_dpp_58_who_may_only_look_disputes_nothing(client: Client, db: None) -> None:
    viewer = User.objects.create_user("bob", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_run"))
    client.force_login(viewer)
    run = gear.committed()
    before = gear.everything(run.run_id)
    assert "Who acts next:" in page(client, f"{RUNS}{run.run_id}/change/")
    assert client.post(f"{RUNS}{run.run_id}/dispute/", {"reason": "wrong"}).status_code == 403
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("DPP-75")
def test_dpp_75_the_first_page_counts_runs_by_state(console: Client) -> None:
    for state in ("accepted", "reserved", "reserved", "working", "claimed", "committed", "disputed"):
        getattr(gear, state)()
    panels = {panel.title: panel for panel in dashboard.dashboard_panels(User(is_active=True, is_superuser=True))}
    figures = {figure.label: figure.value for figure in panels["Runs"].figures}
    assert figures == {"Queued": "2", "Processing": "1", "Finishing": "1", "Being accepted": "1", "In dispute": "1"}
    plot = panels["Runs per hour"].plot
    assert plot is not None
    assert {name: values[-1] for name, values in plot.series.items()} == {
        "completed": 2,
        "failed": 0,
        "queued": 3,
        "processing": 2,
    }
    assert "Runs per hour" in page(console, "/admin/")


@pytest.mark.contract("DPP-75")
def test_dpp_75_every_number_of_the_first_page_leads_to_its_list(console: Client) -> None:
    """But of services, which are states: there is no list of them."""
    gear.committed()
    numbers = [
        (panel.title, figure)
        for panel in dashboard.dashboard_panels(User(is_active=True, is_superuser=True))
        for figure in panel.figures
        if panel.title != "Services"
    ]
    assert len(numbers) > 40
    assert [f"{title}: {figure.label}" for title, figure in numbers if not figure.link] == []
    for link in sorted({figure.link for _, figure in numbers}):
        assert console.get(link).status_code == 200, link  # a filter that the list does not know is sent back (302)


def samples(name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.values()): sample.value
        for metric in run_metrics.collect_runs()
        for sample in metric.samples
        if sample.name == name
    }


@pytest.mark.django_db
@pytest.mark.contract("DPP-74")
def test_dpp_74_metrics_count_the_open_runs_by_state() -> None:
    for state in ("accepted", "reserved", "reserved", "working", "claimed", "committed"):
        getattr(gear, state)()
    assert samples("dpp_runs_open") == {
        ("QUEUED", "NONE", ""): 1,
        ("QUEUED", "RESERVED", ""): 2,
        ("PROCESSING", "RESERVED", ""): 1,
        ("QUEUED", "NONE", "CLAIMED"): 0,
        ("QUEUED", "RESERVED", "CLAIMED"): 0,
        ("PROCESSING", "RESERVED", "CLAIMED"): 1,
    }


@pytest.mark.django_db
@pytest.mark.contract("DPP-74")
def test_dpp_74_metrics_count_what_ended_within_the_hour() -> None:
    gear.committed()
    gear.committed(intent=gear.fee())
    gear.aged(gear.committed(), updated_at=3_700)
    assert samples("dpp_runs_ended_last_hour") == {
        ("COMPLETED", ""): 1,
        ("FAILED", ""): 0,
        ("FAILED", "WORKER_TIMEOUT"): 1,
        ("EXPIRED", ""): 0,
    }


@pytest.mark.django_db
@pytest.mark.contract("DPP-74")
def test_dpp_74_metrics_tell_how_long_the_oldest_waits() -> None:
    assert samples("dpp_runs_oldest_queued_seconds") == {(): 0}
    gear.reserved()
    gear.aged(gear.reserved(), created_at=600)
    for no_worker_is_waited_for in (gear.accepted(), gear.working(), gear.claimed()):
        gear.aged(no_worker_is_waited_for, created_at=9_000)
    assert samples("dpp_runs_oldest_queued_seconds")[()] == pytest.approx(600, abs=10)


@pytest.mark.django_db
@pytest.mark.contract("DPP-74")
def test_dpp_74_the_scrape_carries_them() -> None:
    gear.reserved()
    assert b'dpp_runs_open{money_state="RESERVED",stage="",status="QUEUED"} 1.0' in metrics.render_metrics()


@pytest.mark.django_db
def test_runs_models_ids_are_in_order_of_time(clock: Any) -> None:
    first = run_ids.new_run_id()
    clock.advance(seconds=1)
    between = run_ids.first_run_id_at(clock.now())
    second = run_ids.new_run_id()
    assert first < between <= second
    assert (first.version, first.variant) == (7, uuid.RFC_4122)
    assert len({run_ids.new_run_id() for _ in range(1_000)}) == 1_000
    assert Run.objects.filter(run_id__gte=between).count() == 0
