from importlib import import_module

from django.apps import AppConfig, apps


class TenantsConfig(AppConfig):
    name = "tenants"
    verbose_name = "Tenants and keys"

    def ready(self) -> None:
        import_module("tenants.checks")
        if apps.is_installed("drf_spectacular"):  # a worker has no document
            import_module("tenants.openapi")
