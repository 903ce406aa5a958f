from importlib import import_module

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "tenants.webhooks"
    label = "webhooks"
    verbose_name = "Webhooks"

    def ready(self) -> None:
        import_module("tenants.webhooks.checks").refuse_wrong_hosts()
