"""The three roles that a migration makes: what each may read, and what it may do (DPP-75)."""

import importlib

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from budget.models import LedgerEntry
from runs.models import Run
from tests.gear.builders.busy_account import completed_run
from tests.gear.builders.shop import Shop

pytestmark = [pytest.mark.contract("DPP-75", "HRD-13"), pytest.mark.django_db]

ROLES = importlib.import_module("dpp_project.signin.migrations.0002_roles")
ACCOUNTS = {"auth.user", "auth.group"}
"""Operators' own accounts: a superuser's alone."""


@pytest.fixture
def roles(db: None) -> None:
    """As the migration leaves them; tests that empty the tables take them away."""
    ROLES.make_roles(apps)


def signed_in(role: str) -> Client:
    person = User.objects.create_user(f"bob-{role}", is_staff=True)
    person.groups.add(Group.objects.get(name=role))
    client = Client()
    client.force_login(person)
    return client


def test_making_the_roles_again_changes_nothing_and_takes_nothing(roles: None) -> None:
    def held() -> list[tuple[str, str]]:
        return sorted(Group.objects.values_list("name", "permissions__codename"))

    before = held()
    extra = Permission.objects.get(codename="change_user")
    Group.objects.get(name="finance").permissions.add(extra)
    ROLES.make_roles(apps)
    assert held() == sorted([*before, ("finance", "change_user")])


def test_each_permission_of_a_role_is_one_that_a_page_knows(roles: None) -> None:
    """No page asks for one that is misspelt, and the console has no page that no role reads."""
    known = {f"{app}.{name}" for app, name in Permission.objects.values_list("content_type__app_label", "codename")}
    made_by_django = {
        f"{model._meta.app_label}.{act}_{model._meta.model_name}"
        for model in apps.get_models()
        for act in ("add", "change", "delete", "view")
    }
    assert {name for named in ROLES.ROLES.values() for name in named} <= known & made_by_django
    shown = {model._meta.label_lower for model in admin.site._registry} - ACCOUNTS - {"audit.auditentry"}
    assert shown - set(ROLES.READ) == set(ADDED_SINCE)


ADDED_SINCE: tuple[str, ...] = ()
"""Pages newer than the migration: a superuser puts them into the roles, or another migration does."""


@pytest.mark.parametrize("role", ["viewer", "operator", "finance"])
def test_each_role_reads_every_list_and_no_operators_accounts(roles: None, role: str) -> None:
    client = signed_in(role)
    for model in admin.site._registry:
        path = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        hidden = model._meta.label_lower in ACCOUNTS or (role == "viewer" and model._meta.app_label == "audit")
        assert client.get(path).status_code == (403 if hidden else 200), path


def test_a_viewer_changes_nothing(roles: None, shop: Shop) -> None:
    ROLES.make_roles(apps)
    run = completed_run(shop.tenant)
    client = signed_in("viewer")
    assert "Who acts next" in client.get(f"/admin/runs/run/{run.run_id}/change/?result=1").content.decode()
    refused: tuple[tuple[str, dict[str, str]], ...] = (
        (f"runs/run/{run.run_id}/dispute/", {"reason": "x"}),
        (f"runs/run/{run.run_id}/cancel/", {"reason": "x"}),
        (f"budget/account/{shop.tenant.pk}/top_up/", {"amount_usd": "1.0000", "reference": "r"}),
        (f"tenants/tenant/{shop.tenant.pk}/suspend/", {}),
    )
    entries = LedgerEntry.objects.count()
    for path, form in refused:
        assert client.post(f"/admin/{path}", form).status_code == 403, path
    shop.tenant.refresh_from_db()
    assert (shop.tenant.status, LedgerEntry.objects.count()) == ("ACTIVE", entries)
    assert Run.objects.get().money_state == "SETTLED"


def test_an_operator_disputes_and_enters_no_money_and_finance_the_other_way_round(roles: None, shop: Shop) -> None:
    ROLES.make_roles(apps)
    run = completed_run(shop.tenant)
    dispute = (f"/admin/runs/run/{run.run_id}/dispute/", {"reason": "half a page"})
    money = (
        f"/admin/budget/account/{shop.tenant.pk}/top_up/",
        {"amount_usd": "1.0000", "reference": "invoice-7", "reason": ""},
    )
    operator, finance = signed_in("operator"), signed_in("finance")
    assert operator.post(*money).status_code == 403
    assert finance.post(*dispute).status_code == 403
    assert Run.objects.get().money_state == "SETTLED"
    assert not LedgerEntry.objects.filter(reference="invoice-7").exists()
    assert finance.post(*money).status_code == 302
    assert operator.post(*dispute).status_code == 302
    assert Run.objects.get().money_state == "DISPUTED"
    assert LedgerEntry.objects.filter(reference="invoice-7").count() == 1


def test_the_result_of_a_run_is_read_by_who_may_act_on_it(roles: None, shop: Shop) -> None:
    ROLES.make_roles(apps)
    path = f"/admin/runs/run/{completed_run(shop.tenant).run_id}/change/"
    for role, may in (("operator", True), ("viewer", False), ("finance", False)):
        client = signed_in(role)
        assert ("Show the result" in client.get(path).content.decode()) is may
        assert ('class="dpp-preview"' in client.get(f"{path}?result=1").content.decode()) is may
