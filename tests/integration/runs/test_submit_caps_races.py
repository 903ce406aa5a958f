"""Submits under caps where something came between: a change that died on its way, another key's retry."""

from datetime import timedelta

import pytest

from budget import services
from budget.redis import keys
from dpp_project.stores import redis
from runs import transitions
from runs.models import Run
from runs.submit import key_lock
from tenants import authentication
from tenants.models import SpendCap
from tenants.webhooks import reach
from tenants.webhooks.event_names import EventName
from tenants.webhooks.models import WebhookMessage
from tests.gear.builders import recovery, webhooks
from tests.gear.builders import runs as gear
from tests.gear.builders.recovery import Died
from tests.gear.builders.shop import PRICE_MICROS, Shop, a_request_key
from tests.gear.builders.tenants import a_key
from tests.integration.runs.test_submit_caps import capped, refused, seen, today

pytestmark = pytest.mark.contract("CAP-07")


@pytest.mark.parametrize("whose", ["key", "tenant"])
def test_cap_07_a_raised_cap_that_died_before_redis_is_brought_by_the_next_submit(shop: Shop, whose: str) -> None:
    """A look at the old limits must not refuse what would bring the new ones."""
    capped(shop, of_key=whose == "key", day=PRICE_MICROS)
    assert shop.submit().status_code == 202
    refused(shop.submit())
    SpendCap.objects.filter(tenant=shop.tenant).update(day_usd_micros=2 * PRICE_MICROS, revision=2)
    authentication.memory.forget()
    assert shop.submit().status_code == 202
    refused(shop.submit())
    assert seen(shop, of_key=whose == "key").revision == 2
    recovery.law_holds(shop.tenant)


def dies_before_its_hold(shop: Shop, key: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    def die(**_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(services, "hold", die)
        patch.setattr(key_lock, "release_key_lock", lambda _lock: None)
        with pytest.raises(Died):
            shop.submit(key=key)
    redis.redis_client().delete(*shop.redis_keys("idem_lock:*"))
    return Run.objects.get(idempotency_key=key)


@pytest.mark.contract("CAP-06", "CAP-09")
def test_cap_06_another_keys_retry_counts_where_the_row_does(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The retrying key's caps are neither asked of the row's scope nor told of; a row's lost scope is missed."""
    monkeypatch.setattr(reach, "webhook_network", webhooks.NamesOfTests)
    webhooks.an_endpoint(shop.tenant, events=[EventName.CAP_REACHED])
    other = Shop(shop.tenant, a_key(shop.tenant))
    for limit in (1, PRICE_MICROS):
        capped(other, day=limit)
    first = a_request_key()
    run = dies_before_its_hold(shop, first, monkeypatch)
    answer = other.submit(key=first)
    assert (answer.status_code, answer.json()["run_id"]) == (202, str(run.run_id))
    assert seen(other).counted["day"] == 0, "the row is the first key's, which has no caps"
    second = a_request_key()
    dies_before_its_hold(shop, second, monkeypatch)
    capped(shop, day=PRICE_MICROS)
    redis.redis_client().delete(keys.caps_key(shop.tenant.pk, str(shop.issued.key.lineage_id)))
    assert refused(other.submit(key=second))["scope"] == "key"
    (told,) = WebhookMessage.objects.filter(event="cap.reached")
    assert told.payload["key"]["key_id"] == str(shop.issued.key.key_id)
    recovery.law_holds(shop.tenant)


@pytest.mark.contract("CAP-05")
def test_cap_05_a_retry_after_midnight_counts_on_the_date_of_its_row(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database gave it another date when it was accepted than it would give it now."""
    capped(shop, day=PRICE_MICROS)
    key = a_request_key()
    run = dies_before_its_hold(shop, key, monkeypatch)
    other_day = today(shop) + timedelta(days=1)
    gear.won(transitions.resume(run_id=run.run_id, version=run.version, actor="test", not_before=other_day))
    answer = shop.submit(key=key)
    assert (answer.status_code, answer.json()["run_id"]) == (202, str(run.run_id))
    assert (gear.row(run.run_id).spend_day, seen(shop).day) == (other_day, other_day)
    assert refused(shop.submit())["window"] == other_day.isoformat()
    recovery.law_holds(shop.tenant)
