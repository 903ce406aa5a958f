"""What is done to tenants and keys, and what is refused without a trace."""

import hashlib
import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from pytest_django import DjangoCaptureOnCommitCallbacks

from dpp_project.clock import FixedClock
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants import keys, services
from tenants.models import ApiKey, Tenant
from tenants.scopes import OPERATOR_TENANT_ID, Scope
from tenants.services import IssuedKey
from tests.gear.builders.tenants import a_key, a_tenant, an_operator_key

pytestmark = [pytest.mark.django_db, pytest.mark.contract("DPP-11")]


def everything() -> tuple[list[Any], list[Any]]:
    return list(Tenant.objects.order_by("pk").values()), list(ApiKey.objects.order_by("pk").values())


def create_tenant(tenant_id: str) -> None:
    assert isinstance(services.create_tenant(tenant_id=tenant_id, display_name="One", actor="test"), Tenant)


def issue_key(tenant_id: str | None = None) -> IssuedKey:
    tenant_id = tenant_id or a_tenant().tenant_id
    issued = services.issue_key(tenant_id=tenant_id, scopes=[Scope.RUNS_READ], actor="test")
    assert isinstance(issued, IssuedKey)
    return issued


def refused(act: Callable[[], object], reason: ReasonCode, field: str) -> Refusal:
    """The act is refused for this reason and changes nothing at all."""
    before = everything()
    answer = act()
    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.field) == (reason, field)
    assert everything() == before
    return answer


def test_tenants_created_active_at_the_default_rates() -> None:
    tenant = services.create_tenant(tenant_id="t_acme", display_name="Acme", actor="test")
    assert isinstance(tenant, Tenant)
    stored = Tenant.objects.get(tenant_id="t_acme")
    assert (stored.display_name, stored.status) == ("Acme", "ACTIVE")
    assert (stored.poll_rate_per_minute, stored.submit_rate_per_minute) == (60, 60)


def test_tenants_an_id_is_taken_once() -> None:
    tenant = a_tenant()
    refused(
        lambda: services.create_tenant(tenant_id=tenant.tenant_id, display_name="Other", actor="test"),
        ReasonCode.CONFLICT,
        "tenant_id",
    )


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"tenant_id": "acme"}, "tenant_id"),
        ({"tenant_id": "t_acme\n"}, "tenant_id"),
        ({"tenant_id": "t_\N{ARABIC-INDIC DIGIT ONE}"}, "tenant_id"),
        ({"display_name": ""}, "display_name"),
        ({"display_name": "  "}, "display_name"),
        ({"display_name": "a\x00b"}, "display_name"),
        ({"display_name": "x" * 201}, "display_name"),
        ({"poll_rate_per_minute": 0}, "poll_rate_per_minute"),
        ({"submit_rate_per_minute": 1_000_001}, "submit_rate_per_minute"),
        *[({"zone": zone}, "zone") for zone in ("Europe/Bonn", "Europe", "CEST", "europe/berlin", "../etc/passwd", "")],
        *[({"zone": zone}, "zone") for zone in ("localtime", "posix/UTC", "right/UTC", "UTC\n", "+02:00", "Z" * 65)],
    ],
)
def test_tenants_wrong_fields_are_named(values: dict[str, Any], field: str) -> None:
    arguments: dict[str, Any] = {"tenant_id": "t_acme", "display_name": "Acme", "actor": "test"}
    refused(lambda: services.create_tenant(**(arguments | values)), ReasonCode.VALIDATION_FAILED, field)


def test_tenants_updated_in_name_and_rates() -> None:
    tenant = a_tenant()
    changed = services.update_tenant(
        tenant_id=tenant.tenant_id, display_name="New", poll_rate_per_minute=7, submit_rate_per_minute=8, actor="test"
    )
    assert isinstance(changed, Tenant)
    assert (changed.display_name, changed.poll_rate_per_minute, changed.submit_rate_per_minute) == ("New", 7, 8)


@pytest.mark.contract("CAP-01")
def test_tenants_of_a_zone_that_postgres_and_python_know() -> None:
    tenant = services.create_tenant(tenant_id="t_acme", display_name="Acme", zone="Europe/Berlin", actor="test")
    assert isinstance(tenant, Tenant)
    arguments: Any = {"tenant_id": "t_acme", "display_name": "New", "actor": "test"}
    rates: Any = {"poll_rate_per_minute": 7, "submit_rate_per_minute": 8}
    services.update_tenant(**arguments, **rates)
    assert Tenant.objects.get(pk="t_acme").zone == "Europe/Berlin", "not named, so it stays"
    services.update_tenant(**arguments, **rates, zone="Asia/Kathmandu")
    assert Tenant.objects.get(pk="t_acme").zone == "Asia/Kathmandu"
    changed = services.change_budget_settings(
        tenant_id="t_acme", changes={"zone": "America/St_Johns", "low_balance_usd_micros": 5}, actor="test"
    )
    assert isinstance(changed, Tenant)
    assert (changed.zone, changed.low_balance_usd_micros, changed.poll_rate_per_minute) == ("America/St_Johns", 5, 7)
    refused(
        lambda: services.change_budget_settings(tenant_id="t_acme", changes={"zone": "Nowhere"}, actor="test"),
        ReasonCode.VALIDATION_FAILED,
        "zone",
    )


def test_tenants_suspended_and_resumed_and_both_safe_to_repeat() -> None:
    tenant_id = a_tenant().tenant_id
    for _ in range(2):
        services.suspend_tenant(tenant_id=tenant_id, actor="test")
        assert Tenant.objects.get(tenant_id=tenant_id).status == "SUSPENDED"
    for _ in range(2):
        services.resume_tenant(tenant_id=tenant_id, actor="test")
        assert Tenant.objects.get(tenant_id=tenant_id).status == "ACTIVE"


def test_tenants_operator_is_not_suspended() -> None:
    an_operator_key()
    refused(
        lambda: services.suspend_tenant(tenant_id=OPERATOR_TENANT_ID, actor="test"),
        ReasonCode.VALIDATION_FAILED,
        "tenant_id",
    )


@pytest.mark.parametrize("act", [services.suspend_tenant, services.resume_tenant])
def test_tenants_unknown_ones_are_said_to_be(act: Callable[..., object]) -> None:
    refused(lambda: act(tenant_id="t_nobody", actor="test"), ReasonCode.NOT_FOUND, "tenant_id")


def test_keys_are_stored_as_prefix_and_hash_and_nothing_else() -> None:
    issued = issue_key()
    row = ApiKey.objects.values().get(pk=issued.key.pk)
    assert row["key_hash"] == hashlib.sha256(issued.plaintext.encode()).hexdigest()
    assert row["prefix"] == issued.plaintext[4:12]
    assert issued.plaintext[13:] not in str(row)
    assert issued.plaintext[13:] not in repr(issued)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["runs:fly"]}, "scopes"),
        ({"scopes": ["runs:read", "operator:read"]}, "scopes"),
        ({"label": ""}, "label"),
        ({"label": "\x00"}, "label"),
    ],
)
def test_keys_wrong_fields_are_named(values: dict[str, Any], field: str) -> None:
    tenant = a_tenant()
    arguments: dict[str, Any] = {"tenant_id": tenant.tenant_id, "scopes": [Scope.RUNS_READ], "actor": "test"}
    refused(lambda: services.issue_key(**(arguments | values)), ReasonCode.VALIDATION_FAILED, field)


def test_keys_of_the_operator_take_no_tenant_scope() -> None:
    an_operator_key()
    refusal = refused(
        lambda: services.issue_key(tenant_id=OPERATOR_TENANT_ID, scopes=["runs:read"], actor="test"),
        ReasonCode.VALIDATION_FAILED,
        "scopes",
    )
    assert "operator:read, operator:write" in refusal.detail


def test_keys_are_not_issued_into_the_past(clock: FixedClock) -> None:
    tenant = a_tenant()
    refused(
        lambda: services.issue_key(
            tenant_id=tenant.tenant_id, scopes=["runs:read"], expires_at=clock.now(), actor="test"
        ),
        ReasonCode.VALIDATION_FAILED,
        "expires_at",
    )


def test_keys_are_not_issued_to_nobody() -> None:
    refused(
        lambda: services.issue_key(tenant_id="t_nobody", scopes=["runs:read"], actor="test"),
        ReasonCode.NOT_FOUND,
        "tenant_id",
    )


def test_keys_a_taken_prefix_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = a_key()
    made = iter([keys.NewKey("dpp_x", taken.key.prefix, "f" * 64), keys.make_api_key()])
    monkeypatch.setattr("tenants.services.keys.make_api_key", lambda: next(made))
    issued = issue_key()
    assert issued.key.prefix != taken.key.prefix


def test_keys_rotation_makes_an_equal_and_lets_the_old_one_run_out(clock: FixedClock) -> None:
    old = a_key(scopes=[Scope.RUNS_READ])
    new = services.rotate_key(key_id=old.key.key_id, grace=timedelta(hours=2), actor="test")
    assert isinstance(new, IssuedKey)
    rows = {row.pk: row for row in ApiKey.objects.all()}
    assert rows[old.key.pk].expires_at == clock.now() + timedelta(hours=2)
    assert rows[old.key.pk].replaced_by_id == new.key.pk
    assert rows[old.key.pk].status == "ACTIVE"
    assert rows[new.key.pk].scopes == ["runs:read"]
    assert rows[new.key.pk].expires_at is None
    assert new.plaintext != old.plaintext


def test_keys_rotation_never_prolongs_the_old_key(clock: FixedClock) -> None:
    soon = clock.now() + timedelta(minutes=5)
    old = a_key(expires_at=soon)
    services.rotate_key(key_id=old.key.key_id, grace=timedelta(hours=2), actor="test")
    assert ApiKey.objects.get(pk=old.key.pk).expires_at == soon


def test_keys_rotation_keeps_the_lifetime(clock: FixedClock) -> None:
    old = a_key(expires_at=clock.now() + timedelta(days=30))
    ApiKey.objects.filter(pk=old.key.pk).update(created_at=clock.now())
    clock.advance(seconds=86_400)
    new = services.rotate_key(key_id=old.key.key_id, actor="test")
    assert isinstance(new, IssuedKey)
    assert new.key.expires_at == clock.now() + timedelta(days=30)


def test_keys_rotation_of_what_has_ended_or_moved_on_is_refused(clock: FixedClock) -> None:
    revoked, expired, replaced = a_key(), a_key(expires_at=clock.now() + timedelta(seconds=1)), a_key()
    services.revoke_key(key_id=revoked.key.key_id, actor="test")
    services.rotate_key(key_id=replaced.key.key_id, actor="test")
    clock.advance(seconds=1)
    for key, why in ((revoked, "is revoked or expired"), (expired, "is revoked or expired"), (replaced, "a successor")):
        answer = refused(partial(services.rotate_key, key_id=key.key.key_id, actor="test"), ReasonCode.CONFLICT, "key")
        assert why in answer.detail
    refused(lambda: services.rotate_key(key_id=uuid.uuid4(), actor="test"), ReasonCode.NOT_FOUND, "key")


@pytest.mark.parametrize("grace", [timedelta(seconds=-1), timedelta(days=31)])
def test_keys_rotation_with_an_odd_grace_is_refused(grace: timedelta) -> None:
    issued = a_key()
    refused(
        lambda: services.rotate_key(key_id=issued.key.key_id, grace=grace, actor="test"),
        ReasonCode.VALIDATION_FAILED,
        "grace",
    )


def test_keys_revocation_is_final_and_the_first_time_stands(clock: FixedClock) -> None:
    issued = a_key()
    at = clock.now()
    services.revoke_key(key_id=issued.key.key_id, actor="test")
    clock.advance(seconds=60)
    again = services.revoke_key(key_id=issued.key.key_id, actor="test")
    assert isinstance(again, ApiKey)
    assert (again.status, again.revoked_at) == ("REVOKED", at)
    refused(lambda: services.revoke_key(key_id=uuid.uuid4(), actor="test"), ReasonCode.NOT_FOUND, "key")


def test_keys_revocation_leaves_the_successor() -> None:
    old = a_key()
    new = services.rotate_key(key_id=old.key.key_id, actor="test")
    assert isinstance(new, IssuedKey)
    services.revoke_key(key_id=old.key.key_id, actor="test")
    assert ApiKey.objects.get(pk=new.key.pk).status == "ACTIVE"


def test_keys_are_found_by_every_name_they_have() -> None:
    issued = a_key()
    for reference in (issued.key.prefix, f"dpp_{issued.key.prefix}", str(issued.key.key_id), f" {issued.plaintext}\n"):
        assert services.find_key(reference) == issued.key
    for reference in ("", "dpp_", "dpp_00000000", str(uuid.uuid4()), "\x00", "dpp_\x00\x00\x00\x00\x00\x00\x00\x00"):
        assert isinstance(services.find_key(reference), Refusal)


def test_tenants_changes_are_audited_when_they_commit_and_not_before(
    caplog: pytest.LogCaptureFixture, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    caplog.set_level("INFO")
    with django_capture_on_commit_callbacks(execute=True):
        create_tenant("t_one")
        issued = issue_key("t_one")
        services.revoke_key(key_id=issued.key.key_id, actor="operator:ada")
    said = [str(record.msg) for record in caplog.records]
    assert [any(event in line for line in said) for event in ("tenant created", "key issued", "key revoked")] == [
        True
    ] * 3
    assert not any(issued.plaintext[13:] in line for line in said)
    assert any("operator:ada" in line for line in said)
    caplog.clear()
    with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
        create_tenant("t_two")
        transaction.set_rollback(True)
    assert not caplog.records
