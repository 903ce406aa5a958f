from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "dpp_project.jobs"
    label = "jobs"
    verbose_name = "Jobs"
