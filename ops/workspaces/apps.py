from importlib import import_module

from django.apps import AppConfig


class WorkspacesConfig(AppConfig):
    name = "ops.workspaces"
    label = "workspaces"
    verbose_name = "Workspaces"

    def ready(self) -> None:
        import_module("ops.workspaces.checks")
        import_module("ops.workspaces.using").register_run_commands()
