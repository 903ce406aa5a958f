from importlib import import_module

from django.apps import AppConfig


class BudgetConfig(AppConfig):
    name = "budget"
    verbose_name = "Money"

    def ready(self) -> None:
        import_module("budget.checks")
