"""A submit under caps: held to the micro, refused with figures that leave nothing behind, dated by the database."""

import threading
from datetime import date, timedelta
from typing import Any

import pytest
from django.db import connection, connections
from django.test import Client

from budget import services
from budget.caps import setting
from budget.caps.setting import CapsSet
from budget.outcomes import RunClosed
from budget.rebuild import rebuild
from budget.rebuild.rebuild import Rebuilt
from budget.redis import keys, scripts, view
from budget.redis.view import SeenCaps
from dpp_project import clock
from dpp_project.stores import redis
from runs import transitions
from runs.claims import LOST
from runs.models import Run
from tenants import authentication
from tenants import services as services_of_tenants
from tenants.models import ApiKey, Tenant
from tenants.services import IssuedKey
from tenants.webhooks import reach
from tenants.webhooks.event_names import EventName
from tenants.webhooks.models import WebhookMessage
from tests.gear import round_trips
from tests.gear.builders import recovery, webhooks
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import PRICE_MICROS, Shop, a_body, a_request_key, messages, take_balance_to
from tests.gear.builders.tenants import a_key, bearer

pytestmark = pytest.mark.contract("CAP-03")


def capped(shop: Shop, *, of_key: bool = True, **limits: int | None) -> CapsSet:
    """In force, and known to this process."""
    answer = setting.set_caps(
        tenant_id=shop.tenant.pk,
        lineage_id=shop.issued.key.lineage_id if of_key else None,
        changes=limits,  # type: ignore[arg-type]
        actor="test",
    )
    assert isinstance(answer, CapsSet)
    assert answer.enforced
    authentication.memory.forget()
    return answer


def seen(shop: Shop, *, of_key: bool = True) -> SeenCaps:
    found = view.look_at_caps(
        scripts.shared_scripts().client, shop.tenant.pk, str(shop.issued.key.lineage_id) if of_key else None
    )
    assert found is not None
    return found


def at(price_usd: str) -> dict[str, Any]:
    return a_body(reservation={"max_cost_usd": price_usd})


def refused(answer: Any) -> dict[str, Any]:
    assert (answer.status_code, answer.json()["reason_code"]) == (402, "SPEND_CAP_REACHED")
    cap: dict[str, Any] = answer.json()["cap"]
    left = max(0, cap["limit_usd_micros"] - cap["used_usd_micros"] - cap["held_usd_micros"])
    assert cap["left_usd_micros"] == left
    return cap


def today(shop: Shop) -> date:
    with connection.cursor() as cursor:
        cursor.execute("SELECT (now() AT TIME ZONE zone)::date FROM tenants WHERE tenant_id = %s", [shop.tenant.pk])
        (found,) = cursor.fetchone()
    day: date = found
    return day


@pytest.mark.contract("CAP-02")
def test_cap_02_the_last_micro_is_spent_and_not_one_more(shop: Shop) -> None:
    capped(shop, day=2 * PRICE_MICROS)
    held = shop.submit(at("0.4999"))
    assert held.status_code == 202
    key = a_request_key()
    cap = refused(shop.submit(at("0.0002"), key=key))
    assert (cap["scope"], cap["period"], cap["held_usd_micros"], cap["left_usd_micros"]) == ("key", "day", 499_900, 100)
    assert cap["window"] == today(shop).isoformat()
    shown = shop.get("/v1/budget").json()["caps"]
    assert [{name: one[name] for name in cap} for one in shown] == [cap], "the same figures"
    assert len(shop.runs()) == 1
    assert shop.submit(at("0.0001"), key=key).status_code == 202, "the same key works, for a price that fits"
    assert seen(shop).counted["day"] == 2 * PRICE_MICROS
    recovery.law_holds(shop.tenant)


def test_cap_03_a_refusal_by_the_hold_leaves_nothing_either(shop: Shop) -> None:
    """A principal that has not heard of the cap does not look at it: the hold itself refuses."""
    answer = shop.submit(at("0.0001"))
    assert answer.status_code == 202
    assert len(messages()) == 1
    setting.set_caps(
        tenant_id=shop.tenant.pk, lineage_id=shop.issued.key.lineage_id, changes={"total": 100}, actor="test"
    )
    cap = refused(shop.submit(at("0.0001")))
    assert (cap["period"], cap["window"], cap["resets_at"]) == ("total", "ever", None)
    assert len(shop.runs()) == 1
    assert messages() == []
    assert shop.redis_keys("idem_lock*") == []
    (receipt,) = shop.redis_keys("receipt:*")
    late = services.hold(
        tenant_id=shop.tenant.pk, run_id=receipt.removeprefix("receipt:"), reserved_micros=100, created_at_ms=1
    )
    assert isinstance(late, RunClosed), "a hold that is still on its way to the row that was dropped"
    recovery.law_holds(shop.tenant)


def test_cap_03_a_price_above_the_cap_itself_says_so(shop: Shop) -> None:
    capped(shop, of_key=False, week=PRICE_MICROS - 100)
    answer = shop.submit()
    assert refused(answer)["scope"] == "tenant"
    assert "more than the tenant's cap of 0.2499 USD a week itself" in answer.json()["detail"]
    shop.nothing_happened()


def test_cap_03_a_price_as_high_as_the_cap_is_told_what_is_left_of_it(shop: Shop) -> None:
    capped(shop, total=PRICE_MICROS)
    assert shop.submit(at("0.0001")).status_code == 202
    answer = shop.submit()
    assert refused(answer)["scope"] == "key"
    said = "The run may cost 0.2500 USD, and 0.2499 USD are left of the key's cap of 0.2500 USD in total."
    assert answer.json()["detail"] == said


def test_cap_03_the_balance_is_refused_before_a_cap(shop: Shop) -> None:
    capped(shop, day=1)
    take_balance_to(shop.tenant, PRICE_MICROS - 1)
    answer = shop.submit()
    assert (answer.status_code, answer.json()["reason_code"]) == (402, "BUDGET_DRAINED")


def test_cap_03_the_tenant_is_named_before_the_key_and_the_longest_window_first(shop: Shop) -> None:
    assert shop.submit(at("0.0001")).status_code == 202
    capped(shop, total=1, month=1, week=1, day=1)
    capped(shop, of_key=False, week=1, day=1)
    cap = refused(shop.submit())
    assert (cap["scope"], cap["period"]) == ("tenant", "week")


@pytest.mark.contract("CAP-14")
def test_cap_14_a_capped_submit_costs_the_trips_and_statements_of_any_other(shop: Shop) -> None:
    capped(shop, day=10 * PRICE_MICROS)
    capped(shop, of_key=False, total=10 * PRICE_MICROS)
    assert shop.submit().status_code == 202  # the key is looked up, and the scripts are loaded
    with round_trips.counted() as held:
        assert shop.submit().status_code == 202
    assert (held.redis, len(held.sql), held.sqs) == (3, 2, 1)
    capped(shop, day=1)
    refused(shop.submit())
    with round_trips.counted() as glanced:
        refused(shop.submit())
    assert (glanced.redis, len(glanced.sql), glanced.sqs) == (2, 1, 0), "no row is made to be dropped again"


@pytest.mark.contract("CAP-02")
def test_cap_02_fifty_at_once_on_one_key_never_pass_its_cap(shop: Shop) -> None:
    """Beside another key of the tenant, which its own cap does not touch."""
    capped(shop, month=7 * PRICE_MICROS + PRICE_MICROS // 2)
    other = Shop(tenant=shop.tenant, issued=a_key(shop.tenant))
    answers: list[tuple[str, int]] = []

    def submit(who: str, of: Shop) -> None:
        try:
            answers.append((who, Shop(of.tenant, of.issued, Client()).submit().status_code))
        finally:
            connections.close_all()

    threads = [
        threading.Thread(target=submit, args=("other" if at % 6 == 0 else "capped", other if at % 6 == 0 else shop))
        for at in range(60)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted([("capped", 202)] * 7 + [("capped", 402)] * 43 + [("other", 202)] * 10)
    assert seen(shop).counted["month"] == 7 * PRICE_MICROS
    recovery.law_holds(shop.tenant)


@pytest.mark.contract("CAP-06")
def test_cap_06_a_rotated_key_goes_on_counting_and_a_new_one_begins_anew(shop: Shop) -> None:
    capped(shop, total=2 * PRICE_MICROS)
    assert shop.submit().status_code == 202
    rotated = services_of_tenants.rotate_key(key_id=shop.issued.key.key_id, actor="test")
    assert isinstance(rotated, IssuedKey)
    assert Shop(shop.tenant, rotated).submit().status_code == 202, "both keys within their grace"
    refused(Shop(shop.tenant, rotated).submit())
    refused(shop.submit())
    services_of_tenants.revoke_key(key_id=shop.issued.key.key_id, actor="test")
    refused(Shop(shop.tenant, rotated).submit())
    assert Shop(shop.tenant, a_key(shop.tenant)).submit().status_code == 202


@pytest.mark.contract("CAP-06")
@pytest.mark.parametrize("how", ["expired", "revoked"])
def test_cap_06_a_key_that_has_ended_leaves_its_caps_and_what_they_count(shop: Shop, how: str) -> None:
    """A rebuild counts it, its run goes on counting, and another key still changes its caps."""
    capped(shop, total=2 * PRICE_MICROS)
    assert shop.submit().status_code == 202
    ended, owner = shop.issued.key, Shop(shop.tenant, a_key(shop.tenant))
    if how == "revoked":
        services_of_tenants.revoke_key(key_id=ended.key_id, actor="test")
    else:
        ApiKey.objects.filter(pk=ended.pk).update(expires_at=clock.now() - timedelta(seconds=1))
    assert isinstance(rebuild.rebuild_tenant(shop.tenant.pk), Rebuilt)
    assert (seen(shop).counted["total"], seen(shop).limits["total"]) == (PRICE_MICROS, 2 * PRICE_MICROS)
    changed = owner.client.put(
        f"/v1/keys/{ended.pk}/caps",
        '{"day_usd": "1.0000"}',
        content_type="application/json",
        headers=bearer(owner.issued),
    )
    assert (changed.status_code, changed.json()["revision"], changed.json()["enforced"]) == (200, 2, True)
    listed = {key["key_id"]: key for key in owner.get("/v1/keys").json()["keys"]}
    assert [cap["held_usd_micros"] for cap in listed[str(ended.pk)]["caps"]] == [PRICE_MICROS] * 2
    recovery.law_holds(shop.tenant)


@pytest.mark.contract("CAP-05")
def test_cap_05_a_date_that_the_hold_refuses_is_taken_later_and_remembered(shop: Shop) -> None:
    """As after a clock of the database that was set back: the window of tomorrow has begun already."""
    capped(shop, day=10 * PRICE_MICROS)
    tomorrow = today(shop) + timedelta(days=1)
    name = keys.caps_key(shop.tenant.pk, str(shop.issued.key.lineage_id))
    monday = tomorrow - timedelta(days=tomorrow.weekday())
    redis.redis_client().hset(name, "date", f"{tomorrow:%Y%m%d}{monday:%Y%m%d}")
    answer = shop.submit()
    assert answer.status_code == 202
    first = Run.objects.get(run_id=answer.json()["run_id"])
    assert (first.spend_day, first.version) == (tomorrow, 2), "dated anew by an edge of its own"
    second = Run.objects.get(run_id=shop.submit().json()["run_id"])
    assert (second.spend_day, second.version) == (tomorrow, 1), "this process remembers"
    assert seen(shop).counted["day"] == 2 * PRICE_MICROS


@pytest.mark.contract("CAP-05")
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_cap_05_the_database_dates_a_run_in_its_tenants_zone(shop: Shop, zone: str) -> None:
    Tenant.objects.filter(pk=shop.tenant.pk).update(zone=zone)
    run = Run.objects.get(run_id=shop.submit().json()["run_id"])
    assert (run.spend_day, run.lineage_id) == (today(shop), shop.issued.key.lineage_id)


@pytest.mark.contract("CAP-05")
@pytest.mark.django_db
def test_cap_05_only_a_row_that_is_not_held_is_dated_anew_and_only_later() -> None:
    run = gear.accepted()
    assert run.spend_day is not None
    later = transitions.resume(
        run_id=run.run_id, version=run.version, actor="test", not_before=run.spend_day + timedelta(days=2)
    )
    assert later is not LOST
    earlier = transitions.resume(run_id=run.run_id, version=later.version, actor="test", not_before=run.spend_day)
    assert earlier is not LOST
    run.refresh_from_db()
    assert run.spend_day == run.created_at.date() + timedelta(days=2)
    held = gear.reserved()
    moved = transitions.resume(run_id=held.run_id, version=held.version, actor="test", not_before=date(2100, 1, 1))
    assert moved is LOST


@pytest.mark.contract("CAP-09")
def test_cap_09_a_scope_that_was_lost_is_counted_before_the_next_hold(shop: Shop) -> None:
    capped(shop, day=2 * PRICE_MICROS)
    assert shop.submit().status_code == 202
    redis.redis_client().delete(keys.caps_key(shop.tenant.pk, str(shop.issued.key.lineage_id)))
    assert shop.submit().status_code == 202
    assert seen(shop).counted["day"] == 2 * PRICE_MICROS
    refused(shop.submit())


@pytest.mark.contract("CAP-11")
@pytest.mark.parametrize("by", ["the hold", "a glance"])
def test_cap_11_the_first_refusal_of_a_window_is_told_with_it(
    shop: Shop, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "webhook_network", webhooks.NamesOfTests)
    webhook = webhooks.an_endpoint(shop.tenant, events=[EventName.CAP_REACHED])
    assert shop.submit(at("0.0001")).status_code == 202
    if by == "the hold":  # this process has not heard of the cap, and does not look at it
        lineage_id = shop.issued.key.lineage_id
        setting.set_caps(tenant_id=shop.tenant.pk, lineage_id=lineage_id, changes={"day": 1}, actor="test")
    else:
        capped(shop, day=1)
    refused(shop.submit())
    refused(shop.submit())
    told = WebhookMessage.objects.filter(tenant_id=webhook.tenant_id, event="cap.reached")
    assert [one.payload["percent"] for one in told] == [100]
