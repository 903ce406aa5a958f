"""Addresses under /account/ of the shell itself."""

from django.urls import path

from tenants.account.views import ActivityPage, OverviewPage, SignInPage, SignOutPage

urlpatterns = [
    path("", OverviewPage.as_view(), name="account-overview"),
    path("sign-in/", SignInPage.as_view(), name="account-sign-in"),
    path("sign-out/", SignOutPage.as_view(), name="account-sign-out"),
    path("activity/", ActivityPage.as_view(), name="account-activity"),
]
