from django.apps import AppConfig


class LifecycleConfig(AppConfig):
    name = "dpp_project.lifecycle"
    label = "lifecycle"
    verbose_name = "Data"
