from django.apps import AppConfig


class HeartbeatsConfig(AppConfig):
    name = "dpp_project.heartbeats"
    label = "heartbeats"
    verbose_name = "Processes"
