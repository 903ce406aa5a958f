from importlib import import_module

from django.apps import AppConfig


class AuthErrorsConfig(AppConfig):
    name = "ops.auth_errors"
    label = "auth_errors"
    verbose_name = "Auth errors"

    def ready(self) -> None:
        import_module("ops.auth_errors.checks")
