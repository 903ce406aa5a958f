"""Caps where the tenant's date is not Greenwich's: each page, refusal, rebuild and alert means the tenant's own day.

Of the two zones one at least has another date than UTC at each hour, and the first is always a day or two ahead of the
second. So what takes the date of Greenwich fails in one of them, whatever time it is.
"""

import json
from datetime import timedelta
from typing import Any

import pytest

from budget.caps import setting
from budget.rebuild import rebuild
from budget.rebuild.rebuild import Rebuilt
from budget.redis import keys
from budget.redis.windows import date_number, resets_at
from dpp_project.stores import redis
from runs.models import Run
from runs.submit import spend_dates
from tenants.models import Tenant
from tests.gear import round_trips
from tests.gear.builders import recovery
from tests.gear.builders.caps import put_in_force
from tests.gear.builders.shop import PRICE_MICROS, Shop
from tests.gear.builders.tenants import bearer
from tests.integration.runs.test_submit_caps import refused, seen, today

EAST, WEST = "Pacific/Kiritimati", "Etc/GMT+12"
ZONES = pytest.mark.parametrize("zone", [EAST, WEST])

pytestmark = pytest.mark.contract("CAP-05")


def lives_in(shop: Shop, zone: str) -> None:
    Tenant.objects.filter(pk=shop.tenant.pk).update(zone=zone)


def shown(shop: Shop) -> dict[str, Any]:
    (cap,) = shop.get("/v1/budget").json()["caps"]
    found: dict[str, Any] = cap
    return found


@pytest.mark.contract("CAP-03")
@pytest.mark.parametrize("by", ["the hold", "a glance"])
@ZONES
def test_cap_03_a_refusal_has_the_figures_of_the_tenants_own_day(shop: Shop, zone: str, by: str) -> None:
    lives_in(shop, zone)
    assert shop.submit().status_code == 202
    if by == "a glance":
        put_in_force(shop.tenant, limits={"day": PRICE_MICROS})
    else:  # this process has not heard of the cap, and does not look at it
        setting.set_caps(tenant_id=shop.tenant.pk, lineage_id=None, changes={"day": PRICE_MICROS}, actor="test")
    cap = refused(shop.submit())
    ends = resets_at(today(shop), "day", zone)
    assert ends is not None
    assert (cap["zone"], cap["window"], cap["resets_at"]) == (zone, today(shop).isoformat(), ends.isoformat())
    assert (cap["used_usd_micros"], cap["held_usd_micros"], cap["left_usd_micros"]) == (0, PRICE_MICROS, 0)
    assert shown(shop) == cap
    if by == "a glance":
        with round_trips.counted() as trips:
            assert refused(shop.submit()) == cap
        assert len(trips.sql) == 1, "no row is made to be dropped again"


@ZONES
def test_cap_05_a_day_that_has_ended_there_refuses_nothing(shop: Shop, zone: str) -> None:
    """It is looked at before a row is made, and is full by what was held the day before."""
    lives_in(shop, zone)
    put_in_force(shop.tenant, limits={"day": PRICE_MICROS})
    assert shop.submit().status_code == 202
    yesterday = date_number(today(shop) - timedelta(days=1))
    redis.redis_client().hset(keys.caps_key(shop.tenant.pk), "date", yesterday)
    assert shop.submit().status_code == 202
    assert seen(shop, of_key=False).counted["day"] == PRICE_MICROS


@ZONES
def test_cap_05_a_day_without_runs_is_shown_and_counted_by_the_tenants_date(shop: Shop, zone: str) -> None:
    """No run has given the scope a date: what stands is what Postgres calls today there."""
    lives_in(shop, zone)
    put_in_force(shop.tenant, limits={"day": PRICE_MICROS})
    redis.redis_client().hset(keys.caps_key(shop.tenant.pk), "date", "0" * 16)
    assert (shown(shop)["window"], shown(shop)["left_usd_micros"]) == (today(shop).isoformat(), PRICE_MICROS)
    assert isinstance(rebuild.rebuild_tenant(shop.tenant.pk), Rebuilt)
    assert seen(shop, of_key=False).day == today(shop)
    recovery.law_holds(shop.tenant)


def test_cap_05_a_zone_that_is_moved_west_opens_no_window_twice(shop: Shop) -> None:
    """It is a day earlier there, or two: runs go on counting on the date that has begun, in every process."""
    lives_in(shop, EAST)
    put_in_force(shop.tenant, limits={"day": 2 * PRICE_MICROS})
    first = Run.objects.get(run_id=shop.submit().json()["run_id"])
    begun = today(shop)
    moved = shop.client.patch(
        "/v1/budget", json.dumps({"zone": WEST}), content_type="application/json", headers=bearer(shop.issued)
    )
    assert (moved.status_code, first.spend_day) == (200, begun)
    assert today(shop) < begun
    assert (shown(shop)["window"], shown(shop)["left_usd_micros"]) == (begun.isoformat(), PRICE_MICROS)
    assert spend_dates.latest.of(shop.tenant.pk) is None, "this process has met no later date"
    second = Run.objects.get(run_id=shop.submit().json()["run_id"])
    assert second.spend_day == begun
    cap = refused(shop.submit())
    assert (cap["window"], cap["left_usd_micros"], shown(shop)) == (begun.isoformat(), 0, cap)
    assert isinstance(rebuild.rebuild_tenant(shop.tenant.pk), Rebuilt)
    refused(shop.submit())
    recovery.law_holds(shop.tenant)
