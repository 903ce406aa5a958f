"""What `check` must find beside the constraints: triggers that the run's promises rest on, packs that cannot work."""

from collections.abc import Sequence
from typing import Any, Final

from django.apps import AppConfig
from django.core.checks import CheckMessage, Info, Warning, register  # noqa: A004  Django's own name

from dpp_project.checks import require_trigger
from dpp_project.process_env import ENV
from runs.box import layers
from runs.packs import registry

TRIGGERS: Final = (
    ("runs", "runs_step_is_legal"),
    ("runs", "runs_birth_is_recorded"),
    ("runs", "runs_step_is_recorded"),
    ("runs", "runs_delete_is_legal"),
    ("run_history", "run_history_is_append_only"),
    ("run_disputes", "run_disputes_are_append_only"),
    ("runs", "run_turns_follow_the_run"),
)

for _table, _name in TRIGGERS:
    require_trigger(table=_table, name=_name)


@register()
def packs_that_cannot_work(app_configs: Sequence[AppConfig] | None, **_kwargs: Any) -> list[CheckMessage]:
    """No error: the other packs work, and its own runs end as ENGINE_UNAVAILABLE, unpaid."""
    del app_configs
    return [
        Info(f"The {pack.name} pack cannot work: {what}.", hint="Its runs cost nothing until then.", id="dpp.I001")
        for pack in registry.packs_for_sale().values()
        for what in pack.missing()
    ]


@register()
def packs_that_are_left_out(app_configs: Sequence[AppConfig] | None, **_kwargs: Any) -> list[CheckMessage]:
    """No error: a package that is installed wrongly must not keep the platform from starting."""
    del app_configs
    hint = "docs/packs.md says what a package of packs needs. Mend it or uninstall it; its pack is not sold."
    return [
        Warning(f"An installed pack is left out: {said}.", hint=hint, id="dpp.W010")
        for said in registry.found_packs().left_out
    ]


@register(deploy=True)
def packs_that_may_reach_private_places(app_configs: Sequence[AppConfig] | None, **_kwargs: Any) -> list[CheckMessage]:
    del app_configs
    if ENV.DPP_URL_PRIVATE_HOSTS is None or not ENV.DPP_HTTPS:
        return []
    hint = "Unset DPP_URL_PRIVATE_HOSTS, unless every tenant may read what it names."
    return [Warning("The url pack may fetch from private addresses.", hint=hint, id="dpp.W006")]


@register(deploy=True)
def layers_that_close_jobs_in(app_configs: Sequence[AppConfig] | None, **_kwargs: Any) -> list[CheckMessage]:
    del app_configs
    hint = "docs/packs.md says what is then left open, and what a container must allow."
    return [Info(f"Jobs of the box lack {what}.", hint=hint, id="dpp.I002") for what in layers.missing_layers()]
