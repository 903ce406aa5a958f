from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "dpp_project.audit"
    label = "audit"
    verbose_name = "Audit"
