from importlib import import_module

from django.apps import AppConfig

from dpp_project.stores import postgres


class BudgetConfig(AppConfig):
    name = "budget"
    verbose_name = "Money"

    def ready(self) -> None:
        import_module("budget.checks")
        postgres.ask_each_new_connection(import_module("budget.rebuild.evidence").ask_new_connection)
