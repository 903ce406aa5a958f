"""That recovery's times fit each other. Wrong ones do no harm to money, but would end work that is merely slow."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, register

from dpp_project import constants
from dpp_project.jobs import registry
from runs import timing


@register()
def recovery_waits_long_enough(app_configs: Sequence[AppConfig] | None, **_kwargs: Any) -> list[CheckMessage]:
    del app_configs
    found: list[CheckMessage] = []
    if timing.FIRST_SEND_AGAIN_SECONDS <= constants.QUEUE_VISIBILITY_SECONDS:
        found.append(
            Error(
                "A message is sent again before its first one can be visible again.",
                hint="FIRST_SEND_AGAIN_SECONDS must exceed QUEUE_VISIBILITY_SECONDS.",
                id="dpp.E011",
            )
        )
    if timing.RECONCILE_AFTER_SECONDS <= constants.LEASE_TTL_SECONDS:
        found.append(
            Error(
                "A claim is taken over while its finisher may still be at work.",
                hint="RECONCILE_AFTER_SECONDS must exceed LEASE_TTL_SECONDS.",
                id="dpp.E012",
            )
        )
    if registry.job_named("lease_reaper").every_seconds >= constants.LEASE_TTL_SECONDS:
        found.append(
            Error(
                "The reaper comes so rarely that a dead worker's run waits longer for it than its lease lasted.",
                hint="REAPER_INTERVAL_SECONDS must stay below LEASE_TTL_SECONDS.",
                id="dpp.E013",
            )
        )
    return found
