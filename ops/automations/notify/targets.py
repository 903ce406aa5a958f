"""What the target of a message names: never an address, always a source that an operator made, with its secrets.

    slack      `C0123456789`, where one Slack source stands, or `team/C0123456789` for the source `team`
    webhook    the name of a hook source; its setting `url` is where messages go, and its secrets sign both ways

So no rule can send what a run answered to an address that no operator agreed to.
"""

import re
from dataclasses import dataclass
from typing import Final

from dpp_project.refusals import Refusal, invalid
from ops.automations.models import AutomationSource
from ops.automations.states import MessageChannel, SourceKind

SLACK_CHANNEL: Final = re.compile(r"[A-Z][A-Z0-9]{1,31}")
FIELD: Final = "notify.target"


@dataclass(frozen=True, slots=True)
class Target:
    source: AutomationSource
    channel_id: str = ""
    """Of Slack."""


def find_target(channel: str, target: str) -> Target | Refusal:
    if channel == MessageChannel.SLACK:
        return _slack(target)
    source = AutomationSource.objects.filter(name=target, kind=SourceKind.HOOK).first()
    if source is None:
        return invalid(FIELD, f"there is no hook source {target!r}; automations source list has those there are")
    if not source.settings.get("url"):
        return invalid(FIELD, f"the hook source {target} has no `url`; give it one with automations source change")
    return Target(source)


def _slack(target: str) -> Target | Refusal:
    name, _, channel_id = target.rpartition("/")
    if SLACK_CHANNEL.fullmatch(channel_id) is None:
        return invalid(FIELD, "must end in the id of a Slack channel, such as C0123456789")
    sources = AutomationSource.objects.filter(kind=SourceKind.SLACK)
    found = list((sources.filter(name=name) if name else sources)[:2])
    if not found:
        missing = f"Slack source {name!r}" if name else "Slack source yet"
        return invalid(FIELD, f"there is no {missing}; automations source make makes one")
    if len(found) > 1:
        return invalid(FIELD, "must name one of the Slack sources, as in team/C0123456789")
    return Target(found[0], channel_id)


def written_as(source: AutomationSource, channel_id: str) -> tuple[str, str]:
    """Both ways in which a target may name this channel."""
    return (f"{source.name}/{channel_id}", channel_id)
