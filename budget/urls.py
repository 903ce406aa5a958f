"""Addresses of this app, under /v1/."""

from django.urls import path

from budget.api.caps_views import KeyCapsView, KeyRevokeView, KeyRotateView, KeysView, TenantCapsView
from budget.api.usage import UsageView
from budget.api.views import BudgetView, EntriesView, TopUpsView

urlpatterns = [
    path("budget", BudgetView.as_view(), name="budget"),
    path("budget/entries", EntriesView.as_view(), name="budget-entries"),
    path("usage", UsageView.as_view(), name="usage"),
    path("budget/caps", TenantCapsView.as_view(), name="budget-caps"),
    path("keys", KeysView.as_view(), name="keys"),
    path("keys/<str:key_id>/caps", KeyCapsView.as_view(), name="key-caps"),
    path("keys/<str:key_id>/rotate", KeyRotateView.as_view(), name="key-rotate"),
    path("keys/<str:key_id>/revoke", KeyRevokeView.as_view(), name="key-revoke"),
    path("tenants/<str:tenant_id>/topups", TopUpsView.as_view(), name="topups"),
]
