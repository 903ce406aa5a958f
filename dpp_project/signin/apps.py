from django.apps import AppConfig


class SigninConfig(AppConfig):
    name = "dpp_project.signin"
    label = "signin"
    verbose_name = "Sign-in"
