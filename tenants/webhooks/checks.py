"""What stops the start, and what `check --deploy` must find before a webhook does."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004  Django's own name
from django.db import DatabaseError

from dpp_project import encryption, env
from dpp_project.checks import postgres_was_not_asked
from dpp_project.process_env import ENV
from tenants.webhooks import reach, signing_secrets


def refuse_wrong_hosts() -> None:
    """An exception that cannot be read would be none, and nobody would know."""
    try:
        reach.webhook_rules()
    except ValueError as error:
        env.refuse_environment("DPP_WEBHOOK_PRIVATE_HOSTS", str(error))


@register(deploy=True)
def webhooks_reach_public_places_alone(app_configs: Sequence[AppConfig] | None, **_kwargs: Any) -> list[CheckMessage]:
    del app_configs
    if not ENV.DPP_WEBHOOK_PRIVATE_HOSTS or not ENV.DPP_HTTPS:
        return []
    hint = "Unset DPP_WEBHOOK_PRIVATE_HOSTS, unless every tenant may send to what it names."
    return [Warning("Webhooks may be sent to private addresses.", hint=hint, id="dpp.W008")]


@register(deploy=True)
def webhooks_can_be_registered(app_configs: Sequence[AppConfig] | None, **_kwargs: Any) -> list[CheckMessage]:
    del app_configs
    if encryption.is_possible():
        return []
    hint = "Set DPP_ENCRYPTION_KEYS: openssl rand -base64 32."
    return [Warning("No webhook can be registered or rotated.", hint=hint, id="dpp.W009")]


@register(deploy=True)
def signing_secrets_can_be_read(app_configs: Sequence[AppConfig] | None, **_kwargs: Any) -> list[CheckMessage]:
    """By the mark of the key that each bears; whether it opens is seen when it signs."""
    del app_configs
    try:
        lost = signing_secrets.under_no_key()
    except DatabaseError as error:
        return [postgres_was_not_asked(error)]
    if not lost:
        return []
    hint = "Put the key that is missing back to the end of DPP_ENCRYPTION_KEYS, or have their owners rotate."
    return [Error(f"{lost} signing secrets of webhooks open under no key.", hint=hint, id="dpp.E015")]
