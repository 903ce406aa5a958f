"""What `manage.py check --deploy` says where this host is to hold workspaces and cannot."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, register

from dpp_project.process_env import ENV
from ops.workspaces.drivers.process import sandbox


@register(deploy=True)
def processes_that_nothing_would_close_off(
    app_configs: Sequence[AppConfig] | None, **_kwargs: Any
) -> list[CheckMessage]:
    """The driver says the same of each start, which then waits."""
    del app_configs
    if ENV.DPP_WORKSPACES_DRIVER != "process" or (why := sandbox.why_not()) is None:
        return []
    return [Error(f"No workspace can be started here: {why}.", hint="Or DPP_WORKSPACES_DRIVER=docker.", id="dpp.E016")]
