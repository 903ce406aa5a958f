"""Addresses of money under /account/."""

from django.urls import path

from budget.account.key_pages import CapsPage, KeyOfAccountPage, KeysOfAccountPage
from budget.account.money_pages import StatementFile, StatementPage, UsageFile, UsagePage

urlpatterns = [
    path("statement/", StatementPage.as_view(), name="account-statement"),
    path("statement.csv", StatementFile.as_view(), name="account-statement-file"),
    path("usage/", UsagePage.as_view(), name="account-usage"),
    path("usage.csv", UsageFile.as_view(), name="account-usage-file"),
    path("keys/", KeysOfAccountPage.as_view(), name="account-keys"),
    path("keys/<str:key_id>/", KeyOfAccountPage.as_view(), name="account-key"),
    path("caps/", CapsPage.as_view(), name="account-caps"),
]
