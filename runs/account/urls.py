"""Addresses of runs under /account/."""

from django.urls import path

from runs.account.views import RunOfAccountPage, RunsPage

urlpatterns = [
    path("", RunsPage.as_view(), name="account-runs"),
    path("<str:run_id>/", RunOfAccountPage.as_view(), name="account-run"),
]
