"""Every list of the console is shown, in the product's own style (DPP-75)."""

import pytest
from django.contrib import admin
from django.db.models import Model
from django.test import Client
from django.urls import reverse

pytestmark = [pytest.mark.django_db, pytest.mark.contract("DPP-75")]


@pytest.mark.parametrize("model", admin.site._registry, ids=lambda model: model._meta.label)
def test_dpp_75_each_list_is_shown_in_our_style(console: Client, model: type[Model]) -> None:
    answer = console.get(reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"))
    assert answer.status_code == 200
    assert '/static/dpp/console.css"' in answer.content.decode()
