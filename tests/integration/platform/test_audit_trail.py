"""The audit trail: what an entry holds, that it stays, and which of it a tenant reads (DPP-97)."""

import io
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.test import Client

from dpp_project import origins
from dpp_project.audit import trail
from dpp_project.audit.models import AuditEntry
from ops.tickets import services
from ops.tickets.models import Ticket
from ops.tickets.states import RequestType
from tenants import services as tenants
from tenants.models import Tenant
from tenants.scopes import Scope
from tests.gear.builders import tickets as ticket_gear
from tests.gear.builders.console import page
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import a_key, a_tenant, an_operator_key, bearer

pytestmark = [pytest.mark.django_db, pytest.mark.contract("DPP-97", "HRD-28")]


def latest() -> AuditEntry:
    return AuditEntry.objects.all()[0]


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit_entries SET actor = 'nobody'", "DELETE FROM audit_entries", "TRUNCATE audit_entries"],
)
def test_dpp_97_an_entry_is_never_changed_deleted_or_emptied(statement: str) -> None:
    a_tenant()
    before = list(AuditEntry.objects.values())
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert list(AuditEntry.objects.values()) == before


@pytest.mark.django_db(transaction=True)
def test_dpp_97_an_entry_needs_the_transaction_of_its_act() -> None:
    with pytest.raises(trail.OutsideTransaction):
        trail.record_in_trail("something", actor="operator:ada", subject="nothing")
    with transaction.atomic():
        trail.record_in_trail("something", actor="operator:ada", subject="nothing")
        transaction.set_rollback(True)
    assert not AuditEntry.objects.exists()


def test_dpp_97_an_entry_says_who_from_where_what_on_what_before_and_after(console: Client) -> None:
    tenant = a_tenant()
    console.post(f"/admin/tenants/tenant/{tenant.pk}/suspend/", REMOTE_ADDR="192.0.2.7", headers={"X-Trace-Id": "t_7"})
    entry = latest()
    assert (entry.actor, entry.source, entry.place) == ("operator:ada", "console", "192.0.2.7")
    assert (entry.act, entry.subject, entry.tenant_id) == ("tenant suspended", f"tenant {tenant.pk}", tenant.pk)
    assert (entry.before, entry.after, entry.trace_id) == ({"status": "ACTIVE"}, {"status": "SUSPENDED"}, "t_7")


def test_dpp_97_the_address_is_the_servers_finding_and_no_header_of_the_client(console: Client) -> None:
    """The server reads X-Forwarded-For, as far as proxies of ours wrote it (tests/unit/test_client_address.py)."""
    tenant = a_tenant()
    console.post(
        f"/admin/tenants/tenant/{tenant.pk}/suspend/",
        REMOTE_ADDR="192.0.2.7",
        headers={"X-Forwarded-For": "203.0.113.9"},
    )
    assert latest().place == "192.0.2.7"


def test_dpp_97_a_command_says_its_name_and_the_account_it_ran_under(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "ada")
    call_command("create_tenant", "t_acme", stdout=io.StringIO())
    entry = latest()
    assert (entry.source, entry.actor) == ("command", "command")
    assert entry.place.startswith("create_tenant by ")
    assert " (ada) on " in entry.place
    assert origins.current_origin() == origins.Origin("platform")


def test_dpp_97_a_dry_run_and_the_same_again_leave_no_entry() -> None:
    tenant = a_tenant()
    count = AuditEntry.objects.count
    before = count()
    call_command("create_tenant", "t_acme", dry_run=True, stdout=io.StringIO(), stderr=io.StringIO())
    tenants.resume_tenant(tenant_id=tenant.pk, actor="operator:ada")
    tenants.enable_submits(tenant_id=tenant.pk, enabled=True, actor="operator:ada")
    assert count() == before


@pytest.mark.django_db(transaction=True)
def test_dpp_97_what_a_ticket_does_names_its_people(shop: Shop) -> None:
    ticket = ticket_gear.opened(
        RequestType.BUDGET_ADJUST,
        {"tenant_id": shop.tenant.pk, "amount_usd": "-1.0000", "reason": "entered twice"},
        requested_by="operator:bob",
    )
    assert isinstance(services.approve_ticket(request_id=ticket.pk, by="operator:ada"), Ticket)
    ticket_gear.run_cycle()
    entry = latest()
    assert (entry.act, entry.actor, entry.source) == ("money adjusted", f"ticket:{ticket.pk}", "ticket")
    assert entry.place == f"{ticket.pk}, asked for by operator:bob, approved by operator:ada"
    assert (entry.tenant_id, entry.reason) == (shop.tenant.pk, "entered twice")
    assert entry.before == {"ledger_usd_micros": 10_000_000}
    assert entry.after is not None
    assert (entry.after["ledger_usd_micros"], entry.after["amount_usd_micros"]) == (9_000_000, -1_000_000)


def test_dpp_97_no_entry_holds_a_secret(console: Client) -> None:
    sent = {
        "username": "bob",
        "usable_password": "true",
        "password1": "ae-4-thirty-two",
        "password2": "ae-4-thirty-two",
    }
    console.post("/admin/auth/user/add/", sent)
    bob = User.objects.get(username="bob")
    issued = tenants.issue_key(tenant_id=a_tenant().tenant_id, scopes=[Scope.RUNS_READ], actor="operator:ada")
    assert isinstance(issued, tenants.IssuedKey)
    assert latest().subject == f"key {issued.key}"
    written = str(list(AuditEntry.objects.values()))
    for secret in ("thirty-two", bob.password, issued.plaintext, issued.key.key_hash):
        assert secret not in written
    assert AuditEntry.objects.get(act="user created").actor == "operator:ada"


# A tenant's own view.


@pytest.fixture
def owner(client: Client) -> tuple[Client, Tenant, dict[str, str]]:
    issued = a_key()
    return client, issued.key.tenant, bearer(issued)


Owner = tuple[Client, Tenant, dict[str, str]]


def read(owner: Owner, **query: Any) -> dict[str, Any]:
    client, _, headers = owner
    answer = client.get("/v1/audit", query, headers=headers)
    assert answer.status_code == 200, answer.content
    document: dict[str, Any] = answer.json()
    return document


def test_dpp_97_a_tenant_reads_what_concerns_it_and_no_names_of_operators(owner: Owner) -> None:
    _, tenant, _ = owner
    stranger = a_key()
    with origins.use_origin(origins.CONSOLE, "192.0.2.7"):
        tenants.enable_submits(tenant_id=tenant.pk, enabled=False, actor="operator:ada")
    shown = read(owner)
    assert [line["act"] for line in shown["entries"]] == ["submits disabled", "key issued", "tenant created"]
    assert shown["next_cursor"] is None
    newest = shown["entries"][0]
    assert (newest["actor"], newest["before"], newest["after"]) == (
        "operator",
        {"submits_enabled": True},
        {"submits_enabled": False},
    )
    for hidden in ("ada", "192.0.2.7", stranger.key.tenant_id, stranger.key.prefix):
        assert hidden not in str(shown)


def test_dpp_97_a_tenant_reads_page_by_page(owner: Owner) -> None:
    _, tenant, _ = owner
    for minute in range(1, 6):
        tenants.update_tenant(
            tenant_id=tenant.pk,
            display_name="A tenant",
            poll_rate_per_minute=100 + minute,
            submit_rate_per_minute=60,
            actor="operator:ada",
        )
    whole = [line["entry"] for line in read(owner)["entries"]]
    assert len(whole) == 7
    paged: list[int] = []
    cursor: dict[str, Any] = {}
    while True:
        found = read(owner, limit=3, **cursor)
        paged += [line["entry"] for line in found["entries"]]
        if found["next_cursor"] is None:
            break
        cursor = {"cursor": found["next_cursor"]}
    assert paged == whole


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 201}, {"cursor": 0}, {"cursor": "x"}, {"cursor": 2**63}])
def test_dpp_97_a_wrong_page_is_refused(owner: Owner, query: dict[str, Any]) -> None:
    client, _, headers = owner
    assert client.get("/v1/audit", query, headers=headers).status_code == 422


# The console.


def test_dpp_97_operators_read_the_trail_and_change_nothing_of_it(console: Client) -> None:
    tenant = a_tenant()
    entry = latest()
    assert tenant.pk in page(console, f"/admin/audit/auditentry/?q={tenant.pk}")
    assert "poll_rate_per_minute" in page(console, f"/admin/audit/auditentry/{entry.pk}/change/")
    for path in ("add/", f"{entry.pk}/delete/"):
        assert console.get(f"/admin/audit/auditentry/{path}").status_code == 403
    assert console.post(f"/admin/audit/auditentry/{entry.pk}/change/", {"actor": "x"}).status_code == 403


def test_dpp_97_the_trail_needs_its_permission(client: Client) -> None:
    bob = User.objects.create_user("bob", is_staff=True)
    client.force_login(bob)
    an_operator_key()
    assert client.get("/admin/audit/auditentry/").status_code == 403
    bob.user_permissions.add(Permission.objects.get(codename="view_auditentry"))
    assert client.get("/admin/audit/auditentry/").status_code == 200
