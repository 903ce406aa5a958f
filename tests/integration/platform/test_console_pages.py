"""Every list of the console is shown, in the product's own style (DPP-75)."""

import pytest
from django.contrib import admin
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from dpp_project.console import row_admin
from tests.gear.builders import runs as gear

pytestmark = [pytest.mark.django_db, pytest.mark.contract("DPP-75")]


@pytest.mark.parametrize("model", admin.site._registry, ids=lambda model: model._meta.label)
def test_dpp_75_each_list_is_shown_in_our_style(console: Client, model: type[Model]) -> None:
    answer = console.get(reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"))
    assert answer.status_code == 200
    assert '/static/dpp/console.css"' in answer.content.decode()


def test_dpp_75_an_empty_list_says_what_comes_there_and_a_filtered_one_how_to_see_all(console: Client) -> None:
    runs = reverse("admin:runs_run_changelist")
    shown = console.get(runs).content.decode()
    assert "The first submit makes the first run" in shown
    assert "None is like that" not in shown
    filtered = console.get(f"{runs}?status__exact=FAILED").content.decode()
    assert "None is like that" in filtered
    assert "The first submit makes the first run" not in filtered
    rules = console.get(reverse("admin:automations_automationrule_changelist")).content.decode()
    assert "Add automation rule</a>" in rules


def test_dpp_75_lists_are_counted_to_a_bound(console: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_admin, "COUNTED_MAX", 2)
    for _ in range(3):
        gear.reserved()
    for address in ("admin:runs_run_changelist", "admin:tenants_tenant_changelist"):
        assert console.get(reverse(address)).context["cl"].result_count == 2, address


def test_dpp_75_an_empty_board_says_how_a_workspace_is_made(console: Client) -> None:
    shown = console.get("/admin/workspaces/workspace/board/").content.decode()
    assert "No workspace yet." in shown
