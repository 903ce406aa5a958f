from importlib import import_module

from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"
    verbose_name = "Runs"

    def ready(self) -> None:
        import_module("runs.checks")
        import_module("runs.reads.for_budget").register_runs_for_budget()
        import_module("runs.reads.for_audit").register_runs_for_audit()
