"""The process itself as an installed app: its commands, its static files, its checks."""

from importlib import import_module

from django.apps import AppConfig

from dpp_project import discovery


class PlatformConfig(AppConfig):
    name = "dpp_project"
    label = "platform"

    def ready(self) -> None:
        import_module("dpp_project.checks")
        import_module("dpp_project.http.openapi")
        list(discovery.modules("metrics"))
