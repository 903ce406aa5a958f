"""The console's pages for tenants and keys, as an operator uses them (DPP-75)."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from dpp_project import clock
from dpp_project.clock import FixedClock
from tenants import services
from tenants.dashboard import tenants_and_keys_panel
from tenants.models import ApiKey, Tenant
from tests.gear.builders.console import page
from tests.gear.builders.tenants import a_key, a_tenant, an_operator_key

pytestmark = [pytest.mark.django_db, pytest.mark.contract("DPP-75")]

KEY = re.compile(r"dpp_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}")
TENANTS, KEYS = "/admin/tenants/tenant/", "/admin/tenants/apikey/"


def test_tenants_admin_lists_and_shows_what_there_is(console: Client) -> None:
    issued = a_key()
    tenant_id = issued.key.tenant_id
    assert tenant_id in page(console, TENANTS)
    assert tenant_id in page(console, f"{TENANTS}?q={tenant_id}")
    assert tenant_id not in page(console, f"{TENANTS}?q=nobody").split('id="changelist"')[-1].replace("?q=", "")
    assert f"dpp_{issued.key.prefix}" in page(console, f"{TENANTS}{tenant_id}/change/")
    for path in (KEYS, f"{KEYS}?q=dpp_{issued.key.prefix}", f"{KEYS}{issued.key.pk}/change/"):
        shown = page(console, path)
        assert f"dpp_{issued.key.prefix}" in shown
        assert issued.key.key_hash not in shown


def test_tenants_admin_creates_a_tenant(console: Client) -> None:
    sent = {
        "tenant_id": "t_acme",
        "display_name": "Acme",
        "poll_rate_per_minute": "600",
        "submit_rate_per_minute": "60",
    }
    assert console.post(f"{TENANTS}add/", sent).status_code == 302
    tenant = Tenant.objects.get(pk="t_acme")
    assert (tenant.display_name, tenant.poll_rate_per_minute, tenant.status) == ("Acme", 600, "ACTIVE")
    assert LogEntry.objects.filter(object_id="t_acme", user__username="ada").count() == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("tenant_id", "Acme"), ("display_name", " "), ("poll_rate_per_minute", "0"), ("submit_rate_per_minute", "x")],
)
def test_tenants_admin_says_what_is_wrong_and_stores_nothing(console: Client, field: str, value: str) -> None:
    sent = {"tenant_id": "t_a", "display_name": "A", "poll_rate_per_minute": "1", "submit_rate_per_minute": "1"}
    response = console.post(f"{TENANTS}add/", sent | {field: value})
    assert response.status_code == 200
    assert field in response.context["adminform"].form.errors
    assert not Tenant.objects.filter(tenant_id__in=["t_a", "Acme"]).exists()


def test_tenants_admin_changes_rates_and_name_but_never_id_or_status(console: Client) -> None:
    tenant = a_tenant()
    sent = {
        "tenant_id": "t_other",
        "status": "SUSPENDED",
        "display_name": "New",
        "poll_rate_per_minute": "6000",
        "submit_rate_per_minute": "7",
        "api_keys-TOTAL_FORMS": "0",
        "api_keys-INITIAL_FORMS": "0",
    }
    assert console.post(f"{TENANTS}{tenant.pk}/change/", sent).status_code == 302
    stored = Tenant.objects.get(pk=tenant.pk)
    assert (stored.display_name, stored.poll_rate_per_minute, stored.submit_rate_per_minute) == ("New", 6_000, 7)
    assert stored.status == "ACTIVE"
    assert not Tenant.objects.filter(pk="t_other").exists()


def test_tenants_admin_acts_on_the_address_that_the_list_links_to(console: Client) -> None:
    tenant = a_tenant()
    linked = f"{TENANTS}{quote(tenant.pk)}/"
    assert f"{linked}change/" in page(console, TENANTS)
    assert f"{linked}suspend/" in page(console, f"{linked}change/")
    assert console.post(f"{linked}suspend/").status_code == 302
    assert Tenant.objects.get(pk=tenant.pk).status == "SUSPENDED"


def test_tenants_admin_suspends_and_resumes_by_post_only(console: Client) -> None:
    tenant = a_tenant()
    offered = page(console, f"{TENANTS}{tenant.pk}/change/")
    assert f"{TENANTS}{tenant.pk}/suspend/" in offered
    assert f"{TENANTS}{tenant.pk}/resume/" not in offered
    asked = page(console, f"{TENANTS}{tenant.pk}/suspend/")
    assert "within 5 seconds" in asked
    assert re.search(r"<button[^>]*>\s*Suspend\s*</button>", asked)
    assert Tenant.objects.get(pk=tenant.pk).status == "ACTIVE"
    assert console.post(f"{TENANTS}{tenant.pk}/suspend/").status_code == 302
    assert Tenant.objects.get(pk=tenant.pk).status == "SUSPENDED"
    page(console, f"{TENANTS}{tenant.pk}/resume/")
    assert console.post(f"{TENANTS}{tenant.pk}/resume/").status_code == 302
    assert Tenant.objects.get(pk=tenant.pk).status == "ACTIVE"
    assert LogEntry.objects.filter(object_id=tenant.pk).count() == 2


@pytest.mark.contract("DPP-11")
def test_tenants_admin_cannot_suspend_or_delete_the_operator(console: Client) -> None:
    an_operator_key()
    response = console.post(f"{TENANTS}t_operator/suspend/", follow=True)
    assert "cannot be suspended" in response.content.decode()
    assert Tenant.objects.get(pk="t_operator").status == "ACTIVE"
    assert console.post(f"{TENANTS}t_operator/delete/", {"post": "yes"}).status_code == 403
    assert Tenant.objects.filter(pk="t_operator").exists()
    assert not LogEntry.objects.exists()


@pytest.mark.contract("DPP-11")
def test_tenants_admin_shows_a_new_key_exactly_once(console: Client) -> None:
    tenant = a_tenant()
    sent = {"tenant": tenant.pk, "scopes": ["runs:read", "runs:write"], "label": "laptop"}
    response = console.post(f"{KEYS}add/", sent)
    assert response.status_code == 200
    assert "no-store" in response.headers["Cache-Control"]
    shown = set(KEY.findall(response.content.decode()))
    assert len(shown) == 1
    key = ApiKey.objects.get()
    plaintext = shown.pop()
    assert services.find_key(plaintext) == key
    assert (key.tenant_id, key.scopes, key.label) == (tenant.pk, ["runs:read", "runs:write"], "laptop")
    secret = plaintext[13:]
    for path in (KEYS, f"{KEYS}{key.pk}/change/", f"{KEYS}{key.pk}/history/", "/admin/"):
        assert secret not in page(console, path)
    assert not any(secret in str(session.get_decoded()) for session in Session.objects.all())
    assert not any(secret in morsel.value for morsel in console.cookies.values())
    assert not any(secret in f"{entry.change_message}{entry.object_repr}" for entry in LogEntry.objects.all())
    assert LogEntry.objects.get().object_repr == f"dpp_{key.prefix}"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["operator:read"]}, "scopes"),
        ({"scopes": ["runs:fly"]}, "scopes"),
        ({"expires_at_0": "2020-01-01", "expires_at_1": "00:00:00"}, "expires_at"),
        ({"tenant": "t_nobody"}, "tenant"),
    ],
)
def test_tenants_admin_refuses_wrong_keys_by_field(console: Client, values: dict[str, Any], field: str) -> None:
    sent: dict[str, Any] = {"tenant": a_tenant().pk, "scopes": ["runs:read"]}
    response = console.post(f"{KEYS}add/", sent | values)
    assert response.status_code == 200
    assert field in response.context["adminform"].form.errors
    assert not ApiKey.objects.exists()
    assert not KEY.search(response.content.decode())


def test_tenants_admin_rotates_with_grace_and_shows_the_successor_once(console: Client, clock: FixedClock) -> None:
    old = a_key()
    page(console, f"{KEYS}{old.key.pk}/rotate/")
    assert ApiKey.objects.count() == 1
    response = console.post(f"{KEYS}{old.key.pk}/rotate/", {"grace_hours": "72"})
    shown = KEY.findall(response.content.decode())
    assert len(shown) == 1
    row = ApiKey.objects.get(pk=old.key.pk)
    assert row.expires_at == clock.now() + timedelta(hours=72)
    assert row.replaced_by == services.find_key(shown[0])
    assert "ENDING" in page(console, f"{KEYS}{old.key.pk}/change/")
    again = console.post(f"{KEYS}{old.key.pk}/rotate/", {"grace_hours": "72"}, follow=True)
    assert "has a successor already" in again.content.decode()
    assert ApiKey.objects.count() == 2


def test_tenants_admin_refuses_a_grace_it_does_not_offer(console: Client) -> None:
    old = a_key()
    assert console.post(f"{KEYS}{old.key.pk}/rotate/", {"grace_hours": "9999"}).status_code == 200
    assert ApiKey.objects.count() == 1


def test_tenants_admin_revokes_by_post_only(console: Client) -> None:
    issued = a_key()
    page(console, f"{KEYS}{issued.key.pk}/revoke/")
    assert ApiKey.objects.get().status == "ACTIVE"
    assert console.post(f"{KEYS}{issued.key.pk}/revoke/").status_code == 302
    assert ApiKey.objects.get().status == "REVOKED"


def test_tenants_admin_keys_are_neither_edited_nor_deleted(console: Client) -> None:
    issued = a_key()
    before = ApiKey.objects.values().get()
    assert console.post(f"{KEYS}{issued.key.pk}/change/", {"label": "mine", "status": "REVOKED"}).status_code == 403
    assert console.post(f"{KEYS}{issued.key.pk}/delete/", {"post": "yes"}).status_code == 403
    console.post(KEYS, {"action": "delete_selected", "_selected_action": [str(issued.key.pk)], "post": "yes"})
    assert ApiKey.objects.values().get() == before


@pytest.mark.parametrize("action", ["rotate", "revoke"])
def test_tenants_admin_actions_need_the_token_and_the_permission(action: str) -> None:
    issued = a_key()
    path = f"{KEYS}{issued.key.pk}/{action}/"
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.create_superuser("ada"))
    assert strict.post(path, {"grace_hours": "0"}).status_code == 403
    clerk = Client()
    clerk.force_login(User.objects.create_user("clerk", is_staff=True))
    assert clerk.post(path, {"grace_hours": "0"}).status_code == 403
    assert Client().post(path, {"grace_hours": "0"}).status_code == 302
    row = ApiKey.objects.get()
    assert (row.status, row.expires_at) == ("ACTIVE", None)


def test_tenants_admin_unknown_subjects_are_not_found(console: Client) -> None:
    for path in (
        f"{TENANTS}t_nobody/suspend/",
        f"{KEYS}00000000-0000-4000-8000-000000000000/revoke/",
        f"{KEYS}x/rotate/",
    ):
        assert console.post(path).status_code == 404


@pytest.mark.usefixtures("valkey")
def test_tenants_admin_first_page_counts_tenants_and_keys(console: Client) -> None:
    a_key()
    shown = page(console, "/admin/")
    assert "Tenants and keys" in shown
    assert "Valid keys" in shown


def test_tenants_admin_a_key_made_today_is_no_candidate_to_revoke(tenant: Tenant) -> None:
    def idle() -> str:
        return next(figure.value for figure in tenants_and_keys_panel().figures if "Not used" in figure.label)

    fresh, old = a_key(tenant).key, a_key(tenant).key
    assert (fresh.last_used_at, idle()) == (None, "0")
    ApiKey.objects.filter(pk=old.pk).update(created_at=clock.now() - timedelta(days=91))
    assert idle() == "1"
    ApiKey.objects.filter(pk=old.pk).update(last_used_at=clock.now())
    assert idle() == "0"
