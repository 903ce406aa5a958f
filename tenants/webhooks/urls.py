"""Addresses of webhooks, under /v1/webhooks."""

from django.urls import path

from tenants.webhooks.api import views

urlpatterns = [
    path("webhooks", views.WebhooksView.as_view(), name="webhooks"),
    path("webhooks/deliveries/<str:delivery_id>/redeliver", views.RedeliverView.as_view(), name="webhook-redeliver"),
    path("webhooks/<str:webhook_id>", views.WebhookView.as_view(), name="webhook"),
    path("webhooks/<str:webhook_id>/rotate", views.RotateView.as_view(), name="webhook-rotate"),
    path("webhooks/<str:webhook_id>/test", views.WebhookTestView.as_view(), name="webhook-test"),
    path("webhooks/<str:webhook_id>/deliveries", views.DeliveriesView.as_view(), name="webhook-deliveries"),
    path("webhooks/<str:webhook_id>/recover", views.RecoverView.as_view(), name="webhook-recover"),
]
