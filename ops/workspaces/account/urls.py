"""Addresses of workspaces under /account/."""

from django.urls import path

from ops.workspaces.account.views import WorkspacesPage

urlpatterns = [path("", WorkspacesPage.as_view(), name="account-workspaces")]
