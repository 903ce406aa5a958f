"""What a hostile tenant or key tries with keys, caps and usage, and what it gets."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from django.test import Client

from budget import csv_lines
from budget.caps import tenant_keys
from budget.rebuild import rebuild
from dpp_project import clock
from tenants import services
from tenants.models import ApiKey, Tenant
from tenants.scopes import Scope
from tenants.services import IssuedKey
from tests.gear.builders.tenants import a_key, a_tenant, bearer
from tests.integration.budget.test_caps_api import NARROW, Caller, charged, everything, limited, today

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("CAP-12")]


@pytest.fixture
def tenant(valkey: redis.Redis) -> Tenant:
    tenant = a_tenant(poll_rate_per_minute=10_000, submit_rate_per_minute=10_000)
    rebuild.rebuild_all()
    return tenant


@pytest.fixture
def owner(tenant: Tenant) -> Caller:
    """All scopes, no cap."""
    return Caller(a_key(tenant))


def test_a_key_that_nobody_could_read_back_is_not_made(owner: Caller) -> None:
    """Postgres keeps the year 10000; every list with such a key in it, the console's of all tenants too, was a 500."""
    before = everything()
    for ends in ("9999-12-31T23:59:59-12:00", "3000-01-01T00:00:00Z"):
        [error] = owner.ask("POST", "keys", {"scopes": ["runs:read"], "expires_at": ends}, status=422)["errors"]
        assert error == {"field": "expires_at", "detail": "must lie in the future, and before the year 3000"}
    assert everything() == before
    owner.ask("POST", "keys", {"scopes": ["runs:read"], "expires_at": "2999-12-31T23:59:59.999999Z"}, status=201)


def test_a_key_made_to_last_for_ever_can_be_rotated(owner: Caller, tenant: Tenant) -> None:
    """Its lifetime from now on would end behind the calendar."""
    old = a_key(tenant, scopes=NARROW).key
    ApiKey.objects.filter(pk=old.pk).update(expires_at=datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
    made = owner.ask("POST", f"keys/{old.pk}/rotate", {}, status=201)
    assert datetime.fromisoformat(made["expires_at"]).year in (2999, 3000)


def revoked(issued: IssuedKey) -> None:
    services.revoke_key(key_id=issued.key.key_id, actor="test")


def expired(issued: IssuedKey) -> None:
    ApiKey.objects.filter(pk=issued.key.pk).update(expires_at=clock.now())


def suspended(issued: IssuedKey) -> None:
    services.suspend_tenant(tenant_id=issued.key.tenant_id, actor="test")


@pytest.mark.parametrize("ended", [revoked, expired, suspended])
def test_a_key_that_ended_since_it_was_looked_up_widens_nothing(owner: Caller, tenant: Tenant, ended: Any) -> None:
    """What it is let do for 4 s more would else stand for good."""
    capped = a_key(tenant, scopes=NARROW).key
    limited(tenant, None, day=5)
    limited(tenant, capped, day=5)
    owner.ask("GET", "whoami")
    ended(owner.issued)
    before = everything()
    for method, path, body in (
        ("PUT", "budget/caps", {"day_usd": None}),
        ("PUT", f"keys/{capped.pk}/caps", {"day_usd": None}),
        ("PATCH", "budget", {"zone": "Asia/Tokyo"}),
        ("POST", "keys", {"scopes": ["runs:read"]}),
        ("POST", f"keys/{capped.pk}/rotate", {}),
        ("POST", f"keys/{capped.pk}/revoke", None),
    ):
        assert owner.ask(method, path, body, status=401)["reason_code"] == "AUTH_INVALID"
    assert everything() == before


def test_rotations_pass_no_number_of_live_keys(owner: Caller, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_keys, "LIVE_KEYS_MAX", 2)
    key = a_key(tenant, scopes=NARROW).key
    before = everything()
    refused = owner.ask("POST", f"keys/{key.pk}/rotate", {"grace_sec": 60}, status=409)
    assert refused["detail"] == f"{tenant.pk} has 2 keys that are alive, the most there may be; revoke some"
    assert everything() == before
    owner.ask("POST", f"keys/{key.pk}/rotate", {"grace_sec": 0}, status=201)


def test_keys_made_and_revoked_in_turns_have_an_end(
    owner: Caller, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each leaves rows, and with a cap a scope in Redis, that nothing takes away."""
    monkeypatch.setattr(tenant_keys, "KEYS_A_DAY_MAX", 3)
    asked = {"scopes": ["runs:read"], "caps": {"day_usd": "1.0000"}}
    for _ in range(2):
        made = owner.ask("POST", "keys", asked, status=201)
        owner.ask("POST", f"keys/{made['key_id']}/revoke")
    before = everything()
    for path, body in (("keys", asked), (f"keys/{owner.issued.key.pk}/rotate", {"grace_sec": 0})):
        assert "had 3 keys made in the last 24 hours" in owner.ask("POST", path, body, status=409)["detail"]
    assert everything() == before
    ApiKey.objects.filter(tenant=tenant).update(created_at=clock.now() - timedelta(hours=25))
    owner.ask("POST", "keys", asked, status=201)


def test_a_scope_that_is_none_is_not_sent_back_at_length(owner: Caller) -> None:
    answer = owner.ask("POST", "keys", {"scopes": ["x" * 50_000]}, status=422)
    assert [error["field"] for error in answer["errors"]] == ["scopes[0]"]
    assert len(str(answer)) < 1_000


@pytest.mark.contract("CAP-13", "CAP-15")
def test_usage_tells_a_key_of_no_other_key(owner: Caller, tenant: Tenant) -> None:
    """As GET /v1/keys does; what others spent stays in the totals, which are the tenant's."""
    agent = Caller(a_key(tenant, scopes={Scope.BUDGET_READ}))
    other = services.issue_key(tenant_id=tenant.pk, scopes=["runs:write"], label="secret project", actor="test")
    assert isinstance(other, IssuedKey)
    charged(tenant, other.key, 900, today())
    charged(tenant, agent.issued.key, 40, today())
    mine = str(agent.issued.key)
    seen = agent.ask("GET", "usage?group_by=key")
    assert {row["group"]: row["net_usd_micros"] for row in seen["rows"]} == {mine: 40, None: 900}
    assert seen["totals"]["net_usd_micros"] == 940
    told = {row["group"] for row in owner.ask("GET", "usage?group_by=key")["rows"]}
    assert told == {mine, str(other.key)}
    for query, accept in (("?group_by=key", "text/csv"), ("", "text/csv; profile=focus")):
        answer: Any = Client().get(f"/v1/usage{query}", headers=bearer(agent.issued) | {"Accept": accept})
        text = b"".join(answer.streaming_content).decode()
        answer.close()
        assert mine in text
        for hidden in (other.key.prefix, str(other.key.pk), str(other.key.lineage_id), "secret project"):
            assert hidden not in text


@pytest.mark.contract("CAP-15", "HRD-12")
def test_a_tenant_reads_one_file_of_usage_or_entries_at_a_time(owner: Caller) -> None:
    """Whichever of its keys asks: a slow reader holds one thread."""
    asked = bearer(a_key(Tenant.objects.get(pk=owner.issued.key.tenant_id)))
    slow: Any = Client().get("/v1/usage", headers=bearer(owner.issued) | {"Accept": "text/csv"})
    next(iter(slow.streaming_content))
    for path, accept in (("usage", "text/csv"), ("usage", "text/csv; profile=focus"), ("budget/entries", "text/csv")):
        refused = Client().get(f"/v1/{path}", headers=asked | {"Accept": accept})
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "10")
    slow.close()
    again: Any = Client().get("/v1/usage", headers=asked | {"Accept": "text/csv"})
    assert again.status_code == 200
    again.close()


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("  @SUM(1)", "'  @SUM(1)"),
        ("\N{FULLWIDTH EQUALS SIGN}1", "'\N{FULLWIDTH EQUALS SIGN}1"),
        ("a;=1+1;+2", "a;'=1+1;'+2"),
        ("a;b = c-d", "a;b = c-d"),
        ("", ""),
    ],
)
@pytest.mark.contract("CAP-15")
def test_no_cell_is_a_formula_whatever_parts_the_list(label: str, shown: str) -> None:
    assert csv_lines.harmless_csv_cell(label) == shown
