"""The process itself as an installed app: its commands, its static files, its checks."""

from importlib import import_module

from django.apps import AppConfig, apps
from django.utils.module_loading import module_has_submodule


class PlatformConfig(AppConfig):
    name = "dpp_project"
    label = "platform"

    def ready(self) -> None:
        import_module("dpp_project.checks")
        import_module("dpp_project.console.services_panel")
        import_module("dpp_project.http.openapi")
        import_module("dpp_project.aws.queue_depth")
        for app in apps.get_app_configs():
            for name in ("metrics", "dashboard"):
                if module_has_submodule(app.module, name):
                    import_module(f"{app.name}.{name}")
