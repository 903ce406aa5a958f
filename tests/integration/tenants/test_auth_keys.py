"""Who is let in, who is not, and what it costs (DPP-11). Over HTTP, with real Postgres and Valkey."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dpp_project.clock import FixedClock
from dpp_project.http.problems import Problem
from tenants import authentication, keys, services
from tenants.last_used import LastUsed
from tenants.models import ApiKey
from tenants.principals import REFUSED_KEYS_REMEMBERED, REMEMBERED_SECONDS, PrincipalCache
from tenants.scopes import Scope
from tests.gear.builders.tenants import a_key, a_tenant, an_operator_key, bearer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.contract("DPP-11")]

WHOAMI = "/v1/whoami"


class Seconds:
    def __init__(self) -> None:
        self.at = 1_000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    """The monotonic clock by which the process remembers keys."""
    moved = Seconds()
    monkeypatch.setattr(authentication, "memory", PrincipalCache(monotonic=moved))
    return moved


@pytest.fixture
def last_used(monkeypatch: pytest.MonkeyPatch) -> LastUsed:
    notes = LastUsed(run_later=lambda _seconds, _flush: None)
    monkeypatch.setattr(authentication, "last_used", notes)
    return notes


def reason(response: Any) -> str:
    return str(response.json()["reason_code"])


def test_auth_whoami_tells_what_the_key_is(client: Client) -> None:
    tenant = a_tenant(poll_rate_per_minute=600, submit_rate_per_minute=30)
    issued = a_key(tenant, scopes=[Scope.RUNS_WRITE, Scope.RUNS_READ])
    response = client.get(WHOAMI, headers=bearer(issued))
    assert response.status_code == 200
    assert response.json() == {
        "tenant_id": tenant.tenant_id,
        "key_prefix": f"dpp_{issued.key.prefix}",
        "scopes": ["runs:read", "runs:write"],
        "expires_at": None,
        "rate_limits": {"poll_per_minute": 600, "submit_per_minute": 30},
    }


def test_auth_operator_key_is_a_key_like_any_other(client: Client) -> None:
    response = client.get(WHOAMI, headers=bearer(an_operator_key()))
    assert response.status_code == 200
    assert response.json()["scopes"] == ["operator:read", "operator:write"]


def test_auth_scheme_is_read_in_any_case(client: Client) -> None:
    issued = a_key()
    for scheme in ("bearer", "BEARER", "Bearer "):
        response = client.get(WHOAMI, headers={"Authorization": f"{scheme} {issued.plaintext}"})
        assert response.status_code == 200


def test_auth_warm_path_asks_no_database(client: Client, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    headers = bearer(a_key())
    with django_assert_num_queries(1):
        assert client.get(WHOAMI, headers=headers).status_code == 200
    with django_assert_num_queries(0):
        for _ in range(20):
            assert client.get(WHOAMI, headers=headers).status_code == 200


def test_auth_refused_key_repeated_asks_the_database_once(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    headers = {"Authorization": f"Bearer {keys.make_api_key().plaintext}"}
    with django_assert_num_queries(1):
        for _ in range(20):
            assert client.get(WHOAMI, headers=headers).status_code == 401


def test_auth_revocation_is_effective_within_five_seconds(client: Client, seconds: Seconds) -> None:
    issued = a_key()
    assert client.get(WHOAMI, headers=bearer(issued)).status_code == 200
    services.revoke_key(key_id=issued.key.key_id, actor="test")
    seconds.at += REMEMBERED_SECONDS
    assert REMEMBERED_SECONDS < 5
    response = client.get(WHOAMI, headers=bearer(issued))
    assert response.status_code == 401
    assert reason(response) == "AUTH_INVALID"


def test_auth_suspension_is_effective_within_five_seconds_and_so_is_its_end(client: Client, seconds: Seconds) -> None:
    issued = a_key()
    assert client.get(WHOAMI, headers=bearer(issued)).status_code == 200
    services.suspend_tenant(tenant_id=issued.key.tenant_id, actor="test")
    seconds.at += REMEMBERED_SECONDS
    assert client.get(WHOAMI, headers=bearer(issued)).status_code == 401
    services.resume_tenant(tenant_id=issued.key.tenant_id, actor="test")
    seconds.at += REMEMBERED_SECONDS
    assert client.get(WHOAMI, headers=bearer(issued)).status_code == 200


def test_auth_new_rates_reach_the_principal(client: Client, seconds: Seconds) -> None:
    issued = a_key()
    client.get(WHOAMI, headers=bearer(issued))
    services.update_tenant(
        tenant_id=issued.key.tenant_id,
        display_name="Faster",
        poll_rate_per_minute=6_000,
        submit_rate_per_minute=60,
        actor="test",
    )
    seconds.at += REMEMBERED_SECONDS
    assert client.get(WHOAMI, headers=bearer(issued)).headers["X-RateLimit-Limit"] == "6000"


def test_auth_expiry_is_exact_even_on_a_warm_path(client: Client, clock: FixedClock) -> None:
    issued = a_key(expires_at=clock.now() + timedelta(seconds=2))
    clock.advance(seconds=1.999)
    assert client.get(WHOAMI, headers=bearer(issued)).status_code == 200
    clock.advance(seconds=0.001)
    assert client.get(WHOAMI, headers=bearer(issued)).status_code == 401


def test_auth_rotated_key_works_through_its_grace_and_not_after(client: Client, clock: FixedClock) -> None:
    old = a_key()
    new = services.rotate_key(key_id=old.key.key_id, grace=timedelta(hours=1), actor="test")
    assert isinstance(new, services.IssuedKey)
    clock.advance(seconds=3_599)
    assert client.get(WHOAMI, headers=bearer(old)).status_code == 200
    assert client.get(WHOAMI, headers=bearer(new)).status_code == 200
    clock.advance(seconds=1)
    assert client.get(WHOAMI, headers=bearer(old)).status_code == 401
    assert client.get(WHOAMI, headers=bearer(new)).status_code == 200


def test_auth_every_dead_key_gets_the_same_answer_byte_for_byte(client: Client, clock: FixedClock) -> None:
    revoked, expired, suspended, other = a_key(), a_key(expires_at=clock.now() + timedelta(seconds=1)), a_key(), a_key()
    services.revoke_key(key_id=revoked.key.key_id, actor="test")
    services.suspend_tenant(tenant_id=suspended.key.tenant_id, actor="test")
    clock.advance(seconds=1)
    wrong_secret = f"dpp_{other.key.prefix}_{'x' * 43}"
    presented = [revoked.plaintext, expired.plaintext, suspended.plaintext, wrong_secret, keys.make_api_key().plaintext]
    answers = [
        client.get(WHOAMI, headers={"Authorization": f"Bearer {key}", "X-Trace-Id": "same"}) for key in presented
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    assert {answer.headers["WWW-Authenticate"] for answer in answers} == {'Bearer realm="dpp"'}
    assert not any("X-RateLimit-Limit" in answer.headers for answer in answers)


@pytest.mark.parametrize(
    "header",
    [
        "",
        " ",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "dpp_abcdefgh_" + "x" * 43,
        "Bearer dpp_abcdefgh_" + "x" * 43 + " extra",
        "Bearer\tdpp_abcdefgh_" + "x" * 43,
        "Bearer " + "x" * 60_000,
        "Bearer " + "dpp_" * 5_000,
        "Bearer dpp_abcdefgh_" + "\u00e9" * 43,
        "Bearer \x00\x01\x7f",
        "Bearer ' OR 1=1 --",
        "\u00ff\u00fe",
        "Bearer dpp_abcdefgh_" + "x" * 43 + ",Bearer dpp_abcdefgh_" + "x" * 43,
    ],
)
def test_auth_garbage_is_refused_before_any_query(
    client: Client, header: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        response = client.get(WHOAMI, headers={"Authorization": header})
    assert response.status_code == 401
    assert reason(response) == "AUTH_INVALID"
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="dpp"'
    assert len(authentication.memory) == 0
    if len(header) > 100:
        assert header[-50:] not in response.content.decode()


def test_auth_no_header_is_refused_and_told_what_to_send(client: Client) -> None:
    response = client.get(WHOAMI)
    assert response.status_code == 401
    assert reason(response) == "AUTH_INVALID"
    assert "Authorization: Bearer dpp_" in response.json()["detail"]
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="dpp"'


@pytest.mark.usefixtures("seconds")
def test_auth_random_keys_do_not_grow_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 50  # rather than the memory's own: each key takes a read of the database
    assert authentication.memory._limits[False] == REFUSED_KEYS_REMEMBERED == 2_000
    monkeypatch.setattr(authentication, "memory", PrincipalCache(refused_limit=limit))
    key = a_key()
    authentication.authenticate_header(f"Bearer {key.plaintext}")
    for _ in range(limit + 20):
        with pytest.raises(Problem):
            authentication.authenticate_header(f"Bearer {keys.make_api_key().plaintext}")
    assert len(authentication.memory) == limit + 1
    assert authentication.memory.find(key.key.key_hash) is not None


def test_auth_database_down_is_503_on_a_cold_path_and_nothing_on_a_warm_one(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm, cold = bearer(a_key()), bearer(a_key())
    assert client.get(WHOAMI, headers=warm).status_code == 200

    def down(*_args: object) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(connection, "cursor", down)
    assert client.get(WHOAMI, headers=warm).status_code == 200
    response = client.get(WHOAMI, headers=cold)
    assert response.status_code == 503
    assert reason(response) == "SERVICE_UNAVAILABLE"
    assert int(response.headers["Retry-After"]) > 0
    monkeypatch.undo()
    assert client.get(WHOAMI, headers=cold).status_code == 200, "an outage must not be remembered as a refusal"


def test_auth_use_is_noted_and_written_later_in_one_statement(
    client: Client, clock: FixedClock, last_used: LastUsed, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    one, two, unused = a_key(), a_key(), a_key()
    client.get(WHOAMI, headers=bearer(one))
    client.get(WHOAMI, headers=bearer(two))
    clock.advance(seconds=5)
    client.get(WHOAMI, headers=bearer(one))
    assert not ApiKey.objects.exclude(last_used_at=None).exists()
    with django_assert_num_queries(1):
        last_used.flush()
    last_used.flush()
    at = {row.pk: row.last_used_at for row in ApiKey.objects.all()}
    assert at[one.key.pk] == clock.now()
    assert at[two.key.pk] == clock.now() - timedelta(seconds=5)
    assert at[unused.key.pk] is None


def test_auth_last_use_never_goes_back(client: Client, clock: FixedClock, last_used: LastUsed) -> None:
    issued = a_key()
    later = clock.now() + timedelta(minutes=1)
    ApiKey.objects.filter(pk=issued.key.pk).update(last_used_at=later)
    client.get(WHOAMI, headers=bearer(issued))
    last_used.flush()
    assert ApiKey.objects.get(pk=issued.key.pk).last_used_at == later


def test_auth_a_refused_key_is_not_noted(client: Client, last_used: LastUsed) -> None:
    issued = a_key()
    services.revoke_key(key_id=issued.key.key_id, actor="test")
    client.get(WHOAMI, headers=bearer(issued))
    last_used.flush()
    assert ApiKey.objects.get(pk=issued.key.pk).last_used_at is None
