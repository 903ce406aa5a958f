"""How a run's end reaches the windows that counted it: in its own date, once, and what goes back goes back there."""

from datetime import timedelta
from typing import Any

import pytest

from budget import entries, ledger, repairs, services
from budget.caps import setting
from budget.caps.setting import CapsSet
from budget.models import LedgerEntry
from budget.outcomes import Held
from budget.rebuild.rebuild import Rebuilt
from budget.redis import scripts, view
from budget.redis.view import SeenCaps
from dpp_project.reasons import ReasonCode
from runs import transitions
from runs.claims import Claim, counted_of
from runs.finish.finalization import Committed, finish_claim
from runs.models import Run
from runs.operators import disputes
from runs.reads.for_budget import created_at_ms
from tenants.models import Tenant
from tests.gear import round_trips
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import Shop, top_up
from tests.gear.builders.tenants import a_key, a_tenant

pytestmark = pytest.mark.contract("CAP-05", "CAP-08")

ACTUAL = gear.ACTUAL_MICROS


@pytest.fixture
def shop(tenant: Tenant) -> Shop:
    made = Shop(tenant=tenant, issued=a_key(tenant))
    for lineage_id in (None, made.issued.key.lineage_id):
        answer = setting.set_caps(tenant_id=tenant.pk, lineage_id=lineage_id, changes={"day": 9_000_000}, actor="test")
        assert isinstance(answer, CapsSet)
    return made


def seen(shop: Shop) -> SeenCaps:
    """The key's scope, which the tenant's equals as long as it has one key."""
    scopes = [
        view.look_at_caps(scripts.shared_scripts().client, shop.tenant.pk, lineage_id)
        for lineage_id in (None, str(shop.issued.key.lineage_id))
    ]
    assert scopes[0] is not None
    assert scopes[0] == scopes[1]
    recovery.law_holds(shop.tenant)
    return scopes[0]


def at_work(shop: Shop) -> Run:
    return recovery.at_work(shop.tenant, lineage_id=shop.issued.key.lineage_id)


def end(run: Run) -> None:
    """As its worker does."""
    gear.won(
        transitions.claim_worked(
            run=run, lease_token=gear.LEASE_TOKEN, token=gear.TOKEN, intent=recovery.completed(run), actor="worker"
        )
    )
    assert isinstance(finish_claim(Claim.stored(gear.row(run.run_id), actor="worker")), Committed)


def tomorrow_begins(shop: Shop) -> Run:
    """Another run is held on the next day but six, so that no week of the two is the same."""
    run = gear.accepted(tenant_id=shop.tenant.pk, lineage_id=shop.issued.key.lineage_id)
    assert run.spend_day is not None
    later = run.spend_day + timedelta(days=7)
    gear.won(transitions.resume(run_id=run.run_id, version=run.version, actor="submit", not_before=later))
    dated = gear.row(run.run_id)
    held = services.hold(
        tenant_id=run.tenant_id,
        run_id=str(run.run_id),
        reserved_micros=dated.reservation_max_cost_usd_micros,
        created_at_ms=created_at_ms(dated.created_at),
        counted=counted_of(dated),
    )
    assert isinstance(held, Held)
    gear.won(transitions.reserve(run_id=run.run_id, version=dated.version, actor="submit"))
    return gear.row(run.run_id)


def test_cap_04_what_a_run_does_not_use_is_left_again_as_soon_as_it_is_settled(shop: Shop) -> None:
    run = at_work(shop)
    assert (seen(shop).used["day"], seen(shop).held("day")) == (0, gear.RESERVED_MICROS)
    end(run)
    assert (seen(shop).used, seen(shop).held("day")) == (dict.fromkeys(seen(shop).used, ACTUAL), 0)
    entry = LedgerEntry.objects.get(run_id=run.run_id, kind="CHARGE")
    assert (entry.lineage_id, entry.spend_day) == (shop.issued.key.lineage_id, run.spend_day)


def test_cap_05_a_run_held_before_midnight_changes_the_windows_of_its_own_day_alone(shop: Shop) -> None:
    run = at_work(shop)
    next_week = tomorrow_begins(shop)
    end(run)
    now = seen(shop)
    assert now.day == next_week.spend_day
    assert (now.used["day"], now.used["week"], now.used["total"]) == (0, 0, ACTUAL)
    assert now.counted["day"] == now.counted["week"] == gear.RESERVED_MICROS


def test_cap_08_a_dispute_that_is_refunded_returns_to_the_windows_of_its_run(shop: Shop) -> None:
    run = at_work(shop)
    end(run)
    disputes.open_dispute(run_id=run.run_id, reason="wrong", actor="test")
    assert seen(shop).used["day"] == ACTUAL
    assert isinstance(disputes.refund_dispute(run_id=run.run_id, reason="wrong", actor="test"), Run)
    assert set(seen(shop).used.values()) == set(seen(shop).counted.values()) == {0}


def test_cap_08_a_dispute_of_a_charge_without_a_date_makes_no_room(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accepted by this release and ended by a process of the one before: its charge counts nowhere."""
    run, counted = at_work(shop), at_work(shop)
    dated, undated = (
        "actor, lineage_id, spend_day\n          FROM taken WHERE",
        "actor, NULL, NULL\n          FROM taken WHERE",
    )
    with monkeypatch.context() as before:
        statement = ledger._ENTRIES_OF_ENDED_RUN
        assert dated in statement
        before.setattr(ledger, "_ENTRIES_OF_ENDED_RUN", statement.replace(dated, undated))
        end(run)
    end(counted)
    assert isinstance(repairs.rebuild_by_hand(shop.tenant.pk, actor="test"), Rebuilt)
    assert set(seen(shop).used.values()) == {ACTUAL}
    disputes.open_dispute(run_id=run.run_id, reason="wrong", actor="test")
    assert isinstance(disputes.refund_dispute(run_id=run.run_id, reason="wrong", actor="test"), Run)
    assert set(seen(shop).used.values()) == set(seen(shop).counted.values()) == {ACTUAL}


def test_cap_08_a_failure_of_ours_returns_what_it_cost(shop: Shop) -> None:
    Tenant.objects.filter(pk=shop.tenant.pk).update(refund_own_failures=True)
    run = at_work(shop)
    gear.aged(run, lease_expires_at=1)
    claimed = gear.won(
        transitions.claim_lease_expired(run=gear.row(run.run_id), intent=gear.fee(ReasonCode.WORKER_TIMEOUT), actor="r")
    )
    assert isinstance(finish_claim(claimed.claim), Committed)
    assert seen(shop).used["day"] > 0, "charged, and the credit on its way"
    entries.replay_pending(limit=10, older_than=timedelta(0))
    assert set(seen(shop).used.values()) == {0}


def trips_of_an_end(tenant: Tenant, lineage_id: Any) -> tuple[int, int, int]:
    """Of a run that its worker has claimed: from the settle to the commit."""
    run = recovery.at_work(tenant, lineage_id=lineage_id)
    claimed = transitions.claim_worked(
        run=run, lease_token=gear.LEASE_TOKEN, token=gear.TOKEN, intent=recovery.completed(run), actor="worker"
    )
    gear.won(claimed)
    claim = Claim.stored(gear.row(run.run_id), actor="worker")
    with round_trips.counted() as seen:
        assert isinstance(finish_claim(claim), Committed)
    return seen.redis, len(seen.sql), seen.sqs


@pytest.mark.contract("CAP-14")
def test_cap_14_a_capped_runs_end_costs_the_trips_and_statements_of_any_other(shop: Shop, tenant: Tenant) -> None:
    free = a_tenant()
    top_up(free, 1_000_000)
    for _ in range(2):  # the scripts are loaded by the first
        plain, capped = trips_of_an_end(free, None), trips_of_an_end(tenant, shop.issued.key.lineage_id)
    assert capped == plain == (1, 1, 0)
    assert seen(shop).used["day"] == 2 * ACTUAL
