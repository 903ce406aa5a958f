"""Addresses of this app, under /v1/."""

from django.urls import path

from tenants.api import WhoAmIView

urlpatterns = [path("whoami", WhoAmIView.as_view(), name="whoami")]
