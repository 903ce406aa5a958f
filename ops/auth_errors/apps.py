from importlib import import_module

from django.apps import AppConfig, apps


class AuthErrorsConfig(AppConfig):
    name = "ops.auth_errors"
    label = "auth_errors"
    verbose_name = "Auth errors"

    def ready(self) -> None:
        import_module("ops.auth_errors.checks")
        if apps.is_installed("rest_framework"):  # where requests are authenticated
            platform_reports = import_module("ops.auth_errors.platform_reports")
            import_module("tenants.authentication").failures.register(platform_reports.take_platform_reports)
