"""A tenant whose zone this Postgres does not know: its dates are those of UTC, and nobody else notices (CAP-05).

A name is checked when it is set. A Postgres that was upgraded, moved or restored elsewhere may know fewer of them.
"""

from collections.abc import Iterator
from datetime import date

import pytest
import redis
from django.db import connection

from budget.caps import alerts, setting
from budget.rebuild.gate_watch import watch_gates
from budget.redis import scripts, view
from dpp_project import clock
from runs.models import Run
from tenants import authentication, checks
from tenants.models import Tenant
from tests.gear.builders import recovery
from tests.gear.builders.caps import FAR, put_in_force
from tests.gear.builders.shop import PRICE_MICROS, Shop, a_shop

pytestmark = pytest.mark.contract("CAP-05")

GONE = "Mars/Base"


@pytest.fixture
def moved(shop: Shop) -> Iterator[Shop]:
    """A capped tenant, and since its zone was set the database forgot it."""
    put_in_force(shop.tenant, limits=FAR)
    Tenant.objects.filter(pk=shop.tenant.pk).update(zone=GONE)
    authentication.memory.forget()
    yield shop
    authentication.memory.forget()


def today_in_utc() -> date:
    with connection.cursor() as cursor:
        cursor.execute("SELECT (now() AT TIME ZONE 'UTC')::date")
        (found,) = cursor.fetchone()
    day: date = found
    return day


@pytest.mark.contract("CAP-09", "DPP-55")
def test_cap_05_an_unknown_zone_keeps_no_tenants_money_closed(moved: Shop, valkey: redis.Redis) -> None:
    other = a_shop()
    valkey.flushall()
    seen = watch_gates(limit=10)
    assert (seen.found, seen.rebuilt, seen.failed) == (1, 1, 0)
    assert [shop.submit().status_code for shop in (other, moved)] == [202, 202]
    counted = view.look_at_caps(scripts.shared_scripts().client, moved.tenant.pk)
    assert counted is not None
    assert (counted.day, counted.counted["day"]) == (today_in_utc(), PRICE_MICROS)
    for shop in (other, moved):
        recovery.law_holds(shop.tenant)


def test_cap_05_a_run_in_an_unknown_zone_is_dated_in_utc(moved: Shop) -> None:
    answer = moved.submit()
    assert answer.status_code == 202
    assert Run.objects.get(run_id=answer.json()["run_id"]).spend_day == today_in_utc()


def test_cap_05_what_is_shown_says_that_utc_counts(moved: Shop) -> None:
    moved.submit()
    shown = moved.get("/v1/budget")
    assert shown.status_code == 200
    by_period = {cap["period"]: cap for cap in shown.json()["caps"]}
    assert {cap["zone"] for cap in by_period.values()} == {"UTC"}
    assert by_period["day"]["resets_at"].endswith("T00:00:00Z")
    assert by_period["day"]["held_usd_micros"] == PRICE_MICROS
    usage = moved.get("/v1/usage")
    assert (usage.status_code, usage.json()["zone"]) == (200, "UTC")


@pytest.mark.parametrize("known", [True, False], ids=["at a glance", "by the hold"])
def test_cap_05_a_cap_refuses_in_an_unknown_zone_too(shop: Shop, *, known: bool) -> None:
    Tenant.objects.filter(pk=shop.tenant.pk).update(zone=GONE)
    authentication.memory.forget()
    if not known:
        assert shop.submit().status_code == 202, "and the process remembers that the key has no caps"
    setting.set_caps(tenant_id=shop.tenant.pk, lineage_id=None, changes={"day": 1}, actor="test")
    if known:
        authentication.memory.forget()
    refused = shop.submit()
    assert (refused.status_code, refused.json()["reason_code"]) == (402, "SPEND_CAP_REACHED")
    assert refused.json()["cap"]["zone"] == "UTC"
    authentication.memory.forget()


@pytest.mark.contract("CAP-11")
def test_cap_05_alerts_go_on_beside_a_tenant_in_an_unknown_zone(moved: Shop) -> None:
    other = a_shop()
    put_in_force(other.tenant, limits=FAR)
    seen = alerts.raise_cap_alerts(now=clock.now(), limit=1_000)
    assert (seen.seen, seen.errors, seen.detail["unknown"]) == (2, 0, 0)


def test_cap_05_a_check_names_tenants_whose_zone_postgres_lacks(moved: Shop) -> None:
    (found,) = checks.zones_are_known(None)
    assert found.id == "dpp.W011"
    assert f"{moved.tenant.pk} ({GONE})" in found.msg
    Tenant.objects.filter(pk=moved.tenant.pk).update(zone="Europe/Berlin")
    assert checks.zones_are_known(None) == []
