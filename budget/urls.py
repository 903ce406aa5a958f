"""Addresses of this app, under /v1/."""

from django.urls import path

from budget.api.usage import UsageView
from budget.api.views import BudgetView, EntriesView, TopUpsView

urlpatterns = [
    path("budget", BudgetView.as_view(), name="budget"),
    path("budget/entries", EntriesView.as_view(), name="budget-entries"),
    path("usage", UsageView.as_view(), name="usage"),
    path("tenants/<str:tenant_id>/topups", TopUpsView.as_view(), name="topups"),
]
