from importlib import import_module

from django.apps import AppConfig


class TicketsConfig(AppConfig):
    name = "ops.tickets"
    label = "tickets"
    verbose_name = "Operations"

    def ready(self) -> None:
        import_module("ops.tickets.checks").refuse_unknown_types()
