"""Addresses of this app, under /v1/."""

from django.urls import path

from tenants.api import WhoAmIView
from tenants.audit_api import AuditView

urlpatterns = [
    path("whoami", WhoAmIView.as_view(), name="whoami"),
    path("audit", AuditView.as_view(), name="audit"),
]
