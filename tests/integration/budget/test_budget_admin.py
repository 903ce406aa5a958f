"""The console's pages for money, as an operator uses them (DPP-75), and what a scrape shows of it (DPP-74)."""

import re
from collections.abc import Iterator
from datetime import UTC, timedelta

import pytest
import redis
from django.contrib.auth.models import User
from django.test import Client

from budget import daily_snapshots, dashboard, entries, ledger, services
from budget.metrics import OPERATIONS
from budget.models import BalanceSnapshot, LedgerEntry, SpendDay
from budget.rebuild import rebuild
from budget.redis import keys
from budget.usage import overview, ranges
from dpp_project import clock
from dpp_project.clock import FixedClock
from dpp_project.jobs import registry, runner
from dpp_project.observe import metrics
from tenants import services as services_of_tenants
from tenants.scopes import Scope
from tenants.services import IssuedKey
from tests.gear.builders.console import page
from tests.gear.builders.open_runs import RunsTable, runs_table
from tests.gear.builders.tenants import a_tenant
from tests.integration.budget.test_ledger_tables import charge, entry

__all__ = ["runs_table"]
pytestmark = [pytest.mark.contract("DPP-75"), pytest.mark.usefixtures("tenant_id")]

ACCOUNTS, ENTRIES = "/admin/budget/account/", "/admin/budget/ledgerentry/"


@pytest.fixture
def tenant_id(runs_table: RunsTable, valkey: redis.Redis) -> str:
    rebuild.rebuild_all()
    made = a_tenant().tenant_id
    entries.top_up(tenant_id=made, amount_micros=25_000_000, reference="first", reason="", actor="test")
    return made


def test_accounts_show_balance_held_and_charged(console: Client, tenant_id: str, runs_table: RunsTable) -> None:
    run_id = runs_table.accept(tenant_id, 300_000)
    services.hold(tenant_id=tenant_id, run_id=run_id, reserved_micros=300_000, created_at_ms=1)
    runs_table.mark_reserved(run_id)
    charge(tenant_id, 50_000)
    rebuild.rebuild_tenant(tenant_id)
    for path in (ACCOUNTS, f"{ACCOUNTS}{tenant_id}/change/"):
        shown = page(console, path)
        for amount in ("24.6500", "0.3000", "0.0500", "25.0000"):
            assert amount in shown, (path, amount)
    assert "t_operator" not in page(console, ACCOUNTS)


@pytest.mark.contract("CAP-16")
def test_an_account_shows_the_running_months_usage(console: Client, tenant_id: str) -> None:
    path = f"{ACCOUNTS}{tenant_id}/change/"
    charge(tenant_id, 9)
    assert "No run of this month has been charged yet." in page(console, path), "what counts on no date is no usage"
    issued = services_of_tenants.issue_key(
        tenant_id=tenant_id, scopes=[Scope.RUNS_READ], label="<b>CI</b>", actor="test"
    )
    assert isinstance(issued, IssuedKey)
    asked = ranges.usage_range(tenant_id)
    assert isinstance(asked, ranges.UsageRange)
    last = asked.end - timedelta(days=1)
    charge(tenant_id, 7, spend_day=asked.start, lineage_id=issued.key.lineage_id)
    charged = charge(tenant_id, 5, spend_day=asked.start)
    charge(tenant_id, 3, spend_day=last)
    charge(tenant_id, 11, spend_day=asked.end)
    entry(tenant_id, kind="ADJUST", amount_usd_micros=2, run_id=charged.run_id, spend_day=asked.start)
    seen = overview.usage_overview(tenant_id)
    assert seen is not None
    by_day = [(total.charged_micros, total.credited_micros) for _, total in seen.days]
    assert (by_day[0], by_day[-1], sum(micros for micros, _ in by_day)) == ((12, 2), (3, 0), 15)
    name = f"dpp_{issued.key.prefix} <b>CI</b>"
    assert [(key, total.net_micros, total.runs) for key, total in seen.keys] == [(name, 7, 1), ("no key", 6, 2)]
    assert [(pack, total.net_micros) for pack, total in seen.packs] == [("unknown", 13)]
    shown = page(console, path)
    assert f"dpp_{issued.key.prefix} &lt;b&gt;CI&lt;/b&gt;" in shown
    told = re.findall(r'<dt class="text-subtle">([^<]+)</dt><dd class="text-important">([^<]+)</dd>', shown)
    assert told[-5:] == [
        *(("Net, USD", "0.000013"), ("Charged", "0.000015"), ("Given back", "0.000002")),
        *(("Runs", "3"), ("Tokens", "0")),
    ]
    table = " ".join(re.sub(r"<[^>]*>", " ", shown).split())
    assert "unknown 0.000013 0.000015 0.000002 3 0" in table
    assert "no key 0.000006 0.000008 0.000002 2 0" in table
    assert "0.000012" in shown, "the picture's first day, before what went back"


def test_the_first_page_plots_every_tenants_charges_on_their_dates(console: Client, tenant_id: str) -> None:
    today = clock.now().astimezone(UTC).date()
    for owner in (tenant_id, a_tenant().tenant_id):
        for day in (3, 2, 1):
            at = clock.now() - timedelta(days=day)
            charge(owner, day, spend_day=today - timedelta(days=day), created_at=at)
    daily_snapshots.sum_up(now=clock.now() - timedelta(days=1), limit=10)
    assert SpendDay.objects.count() >= 2
    plot = dashboard.money_panel().plot
    assert plot is not None
    assert list(plot.series["charged, USD"])[-4:] == ["0.000006", "0.000004", "0.000002", "0.00"]
    spent = dashboard.spend_by_tenant_panel()
    assert [row[1:5] for row in spent.rows] == [["", "0.000001", "0.000002", "0.000003"]] * 2


def test_money_being_rebuilt_is_not_shown_as_zero(console: Client, tenant_id: str, valkey: redis.Redis) -> None:
    valkey.flushall()
    assert "being rebuilt" in page(console, f"{ACCOUNTS}{tenant_id}/change/")
    assert dashboard.money_panel().figures[0].value == "closed: being rebuilt"


@pytest.mark.contract("DPP-57")
def test_dpp_57_a_top_up_from_the_console_is_entered_once(console: Client, tenant_id: str) -> None:
    path = f"{ACCOUNTS}{tenant_id}/top_up/"
    (reference,) = re.findall(r'name="reference" value="([^"]+)"', page(console, path))
    sent = {"amount_usd": "1.5000", "reference": reference, "reason": "paid"}
    assert console.post(path, sent).status_code == 302
    assert console.post(path, sent).status_code == 302
    entry = LedgerEntry.objects.get(reference=reference)
    assert (entry.amount_usd_micros, entry.actor, entry.kind) == (1_500_000, "operator:ada", "TOPUP")
    assert ledger.sums_of(tenant_id).total_micros == 26_500_000


def test_an_adjustment_from_the_console_needs_a_reason(console: Client, tenant_id: str) -> None:
    path = f"{ACCOUNTS}{tenant_id}/adjust/"
    sent = {"amount_usd": "-1.5000", "reference": "ticket 7", "reason": ""}
    assert console.post(path, sent).status_code == 200
    assert console.post(path, sent | {"amount_usd": "1.5", "reason": "x"}).status_code == 200
    assert LedgerEntry.objects.count() == 1
    assert console.post(path, sent | {"reason": "was wrong"}).status_code == 302
    assert LedgerEntry.objects.get(kind="ADJUST").amount_usd_micros == -1_500_000
    assert console.post(path, sent | {"reason": "x", "amount_usd": "-2.0000"}, follow=True).status_code == 200
    assert LedgerEntry.objects.count() == 2


def test_an_account_is_proved_and_rebuilt_from_the_console(
    console: Client, tenant_id: str, valkey: redis.Redis
) -> None:
    valkey.incrby(keys.balance_key(tenant_id), 1)
    shown = console.post(f"{ACCOUNTS}{tenant_id}/prove/", follow=True).content.decode()
    assert "BALANCE expected 25000000, found 25000001" in shown
    console.post(f"{ACCOUNTS}{tenant_id}/rebuild/")
    assert valkey.get(keys.balance_key(tenant_id)) == "25000000"
    assert "Proved at" in console.post(f"{ACCOUNTS}{tenant_id}/prove/", follow=True).content.decode()


def test_the_ledger_is_read_only(console: Client, tenant_id: str) -> None:
    entry = LedgerEntry.objects.get()
    assert "25.0000" in page(console, ENTRIES)
    assert "25.0000" in page(console, f"{ENTRIES}{entry.pk}/change/")
    for path in (f"{ENTRIES}add/", f"{ENTRIES}{entry.pk}/delete/", f"{ACCOUNTS}add/", f"{ACCOUNTS}{tenant_id}/delete/"):
        assert console.get(path).status_code == 403, path
    assert console.post(f"{ENTRIES}{entry.pk}/change/", {"amount_usd_micros": "1"}).status_code == 403
    page(console, "/admin/budget/pendingcredit/")


def test_actions_need_the_permission(client: Client, tenant_id: str) -> None:
    client.force_login(User.objects.create_user("bob", is_staff=True))
    assert client.post(f"{ACCOUNTS}{tenant_id}/top_up/", {"amount_usd": "1.0000", "reference": "x"}).status_code == 403
    assert LedgerEntry.objects.count() == 1


def test_the_first_page_shows_the_money(console: Client, tenant_id: str, valkey: redis.Redis) -> None:
    valkey.incrby(keys.balance_key(tenant_id), 4)
    runner.run_job_pass(registry.job_named("money_verify"))
    shown = page(console, "/admin/")
    assert "Owed to tenants" in shown
    figures = {figure.label: figure.value for figure in dashboard.money_panel().figures}
    assert figures["Drift"] == "$0.000004"
    assert figures["Gate"] == "open"


@pytest.mark.contract("DPP-74")
def test_dpp_74_a_scrape_shows_the_drift(tenant_id: str, valkey: redis.Redis) -> None:
    valkey.incrby(keys.balance_key(tenant_id), 4)
    runner.run_job_pass(registry.job_named("money_verify"))
    scraped = metrics.render_metrics().decode()
    for line in ("dpp_money_drift_usd_micros 4.0", "dpp_money_tenants_differing 1.0", "dpp_budget_open 1.0"):
        assert f"\n{line}\n" in scraped
    valkey.flushall()
    assert "\ndpp_budget_open 0.0\n" in metrics.render_metrics().decode()


@pytest.mark.contract("DPP-74")
def test_dpp_74_every_operation_on_money_is_counted_by_its_answer(tenant_id: str) -> None:
    def counted(operation: str, answer: str) -> float:
        return float(OPERATIONS.labels(operation, answer)._value.get())

    asked = [("hold", "Held"), ("settle", "Settled"), ("settle", "NoHold"), ("refund", "Refunded")]
    before = [counted(*each) for each in asked]
    services.settle(tenant_id=tenant_id, run_id="another", charge_micros=1)
    services.hold(tenant_id=tenant_id, run_id="one", reserved_micros=1, created_at_ms=1)
    services.settle(tenant_id=tenant_id, run_id="one", charge_micros=1)
    services.refund(tenant_id=tenant_id, run_id="one")
    assert [counted(*each) for each in asked] == [each + 1 for each in before]


def test_the_jobs_are_declared() -> None:
    assert {"budget_gate_watch", "pending_credits", "money_verify", "balance_snapshots"} <= set(
        registry.declared_jobs()
    )


@pytest.fixture
def march(tenant_id: str) -> Iterator[FixedClock]:
    fixed = FixedClock(clock.now().replace(year=2026, month=3, day=2, hour=0, minute=30))
    with clock.use_clock(fixed):
        yield fixed


@pytest.mark.contract("DPP-54")
def test_days_are_summed_up_an_hour_after_they_end(march: FixedClock, tenant_id: str) -> None:
    other = a_tenant().tenant_id
    first = march.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    charge(other, 7, created_at=first - timedelta(days=3))
    charge(other, 5, created_at=first + timedelta(hours=1))
    assert daily_snapshots.sum_up(now=march.now(), limit=10) == 1
    assert BalanceSnapshot.objects.get().through == first
    assert daily_snapshots.sum_up(now=march.now(), limit=10) == 0
    march.advance(seconds=3_600)
    assert daily_snapshots.sum_up(now=march.now(), limit=10) == 1
    assert list(BalanceSnapshot.objects.order_by("through").values_list("total_usd_micros", flat=True)) == [-7, -12]
    assert ledger.sums_of(other).total_micros == -12
    march.advance(seconds=86_400)
    assert daily_snapshots.sum_up(now=march.now(), limit=10) == 0, "a day without entries needs no sum"


def test_a_clock_that_is_ahead_sums_up_nothing_of_tomorrow(tenant_id: str) -> None:
    """A machine's clock in next year: the database's day has the last word, and charges can still be entered."""
    daily_snapshots.sum_up(now=clock.now() + timedelta(days=400), limit=10)
    charge(tenant_id, 5)
    assert ledger.sums_of(tenant_id).total_micros == 24_999_995


def test_a_writer_under_way_is_waited_for(tenant_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table's lock does not come: nothing is summed up this time."""
    charge(tenant_id, 5, created_at=clock.now() - timedelta(days=3))
    monkeypatch.setattr(daily_snapshots, "_writers_have_ended", lambda: False)
    assert daily_snapshots.sum_up(now=clock.now(), limit=10) == 0
