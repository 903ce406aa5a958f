"""Caps set over HTTP, and runs submitted under them: what is called enforced holds, and a death is made good."""

import json
from typing import Any

import pytest
from redis import Redis

from budget.caps import enforcing
from budget.rebuild import rebuild
from budget.redis import keys as money_keys
from tenants import authentication
from tenants.models import ApiKey, SpendCap
from tenants.scopes import TENANT_SCOPES, Scope
from tenants.services import IssuedKey
from tests.gear.builders import recovery
from tests.gear.builders.recovery import Died
from tests.gear.builders.shop import PRICE_MICROS, Shop, a_body
from tests.gear.builders.tenants import a_key, bearer

pytestmark = pytest.mark.contract("CAP-01", "CAP-07")


@pytest.fixture
def agent(shop: Shop) -> Shop:
    """The same tenant, by a key that can do no more than an agent needs."""
    return Shop(shop.tenant, a_key(shop.tenant, scopes=TENANT_SCOPES - {Scope.KEYS_WRITE}))


def asked(owner: Shop, method: str, path: str, body: Any) -> Any:
    answer: Any = owner.client.generic(
        method, f"/v1/{path}", json.dumps(body), content_type="application/json", headers=bearer(owner.issued)
    )
    return answer


def caps_of(owner: Shop, agent: Shop, **limits: str | None) -> Any:
    answer = asked(owner, "PUT", f"keys/{agent.issued.key.pk}/caps", limits)
    assert answer.status_code == 200
    return answer.json()


def day_of(agent: Shop) -> tuple[int, int, int]:
    """Used, held and left of today."""
    (cap,) = [cap for cap in agent.get("/v1/budget").json()["caps"] if cap["period"] == "day"]
    return cap["used_usd_micros"], cap["held_usd_micros"], cap["left_usd_micros"]


def test_a_first_cap_counts_what_the_key_has_spent_and_is_in_force_when_it_is_answered(shop: Shop, agent: Shop) -> None:
    for _ in range(2):
        assert agent.submit().status_code == 202
    assert caps_of(shop, agent, day_usd="0.6000") | {"caps": None} == {"caps": None, "revision": 1, "enforced": True}
    assert agent.submit().status_code == 402, "a process that has not heard of the cap meets it all the same"
    assert day_of(agent) == (0, 2 * PRICE_MICROS, 600_000 - 2 * PRICE_MICROS)
    assert shop.submit().status_code == 202, "another key of the tenant is not touched"
    recovery.law_holds(shop.tenant)


def test_a_removed_cap_that_is_set_again_counts_as_if_it_had_never_been_away(shop: Shop, agent: Shop) -> None:
    caps_of(shop, agent, day_usd="0.5000")
    assert agent.submit().status_code == 202
    assert caps_of(shop, agent, day_usd=None)["enforced"]
    for _ in range(2):
        assert agent.submit().status_code == 202
    assert caps_of(shop, agent, day_usd="0.5000")["revision"] == 3
    assert day_of(agent) == (0, 3 * PRICE_MICROS, 0)
    assert agent.submit().status_code == 402


def test_a_lowered_cap_ends_no_run_and_refuses_the_next(shop: Shop, agent: Shop) -> None:
    caps_of(shop, agent, day_usd="9.0000")
    assert agent.submit().status_code == 202
    caps_of(shop, agent, day_usd="0.0000")
    assert agent.submit().status_code == 402
    assert [run.money_state for run in shop.runs()] == ["RESERVED"]


def test_a_death_between_commit_and_redis_is_made_good_by_the_next_submit(
    shop: Shop, agent: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    caps_of(shop, agent, day_usd="9.0000")
    assert agent.submit().status_code == 202

    def dies(*_: Any, **__: Any) -> bool:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(enforcing, "put_in_force", dies)
        with pytest.raises(Died):
            caps_of(shop, agent, day_usd="0.3000")
    assert SpendCap.objects.get().revision == 2
    authentication.memory.forget()  # 4 s are over
    assert agent.submit().status_code == 402
    assert day_of(agent) == (0, PRICE_MICROS, 300_000 - PRICE_MICROS)


@pytest.mark.contract("CAP-06")
def test_a_key_made_while_money_was_closed_is_held_to_its_cap_from_its_first_run_on(shop: Shop, valkey: Redis) -> None:
    valkey.delete(money_keys.EPOCH)
    body = {"scopes": ["runs:read", "runs:write", "budget:read"], "caps": {"day_usd": "0.3000"}}
    answer = asked(shop, "POST", "keys", body)
    assert (answer.status_code, answer.json()["enforced"]) == (201, False)
    made = answer.json()
    agent = Shop(shop.tenant, IssuedKey(ApiKey.objects.get(pk=made["key_id"]), made["key"]))
    valkey.delete(money_keys.caps_key(shop.tenant.pk, made["lineage_id"]))
    rebuild.rebuild_all()
    valkey.delete(money_keys.caps_key(shop.tenant.pk, made["lineage_id"]))
    assert agent.submit(a_body(reservation={"max_cost_usd": "0.3001"})).status_code == 402
    assert agent.submit().status_code == 202
    assert agent.submit().status_code == 402
    assert day_of(agent) == (0, PRICE_MICROS, 300_000 - PRICE_MICROS)
