from importlib import import_module

from django.apps import AppConfig


class AutomationsConfig(AppConfig):
    name = "ops.automations"
    label = "automations"
    verbose_name = "Automations"

    def ready(self) -> None:
        import_module("ops.automations.checks")
        import_module("ops.automations.tasks.deleting").register_task_copies()
