from importlib import import_module

from django.apps import AppConfig


class ReaperConfig(AppConfig):
    name = "reaper"
    verbose_name = "Recovery"

    def ready(self) -> None:
        import_module("reaper.checks")
