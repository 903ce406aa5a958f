from importlib import import_module

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "tenants"
    verbose_name = "Tenants and keys"

    def ready(self) -> None:
        import_module("tenants.openapi")
