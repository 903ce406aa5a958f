"""The process itself as an installed app: its commands, its static files, its checks."""

from importlib import import_module

from django.apps import AppConfig, apps

from dpp_project import discovery


class PlatformConfig(AppConfig):
    name = "dpp_project"
    label = "platform"

    def ready(self) -> None:
        has_pages = apps.is_installed("django.contrib.admin")  # a worker has none
        import_module("dpp_project.checks")
        if has_pages:
            import_module("dpp_project.http.openapi")
        list(discovery.discovered_modules("metrics"))
