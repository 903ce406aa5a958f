"""Addresses of webhooks under /account/."""

from django.urls import path

from tenants.webhooks.account.views import WebhookPage, WebhooksPage

urlpatterns = [
    path("", WebhooksPage.as_view(), name="account-webhooks"),
    path("<str:webhook_id>/", WebhookPage.as_view(), name="account-webhook"),
]
