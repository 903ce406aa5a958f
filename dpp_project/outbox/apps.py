from django.apps import AppConfig


class OutboxConfig(AppConfig):
    name = "dpp_project.outbox"
    label = "outbox"
    verbose_name = "Events"
