"""What the settings of each kind of source may say: nothing secret, and nothing unknown."""

import re
from collections.abc import Mapping
from datetime import time
from typing import Annotated, Any, Final, Literal
from zoneinfo import available_timezones

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dpp_project.outbound import locations
from dpp_project.outbound.refusals import Refused
from dpp_project.refusals import Refusal, invalid
from ops.automations.sources import credentials
from ops.automations.states import SourceKind

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
NOT_CLASSIC: Final = ("github_pat_", "ghs_", "ghu_")
NEEDS_TOKEN: Final = frozenset({SourceKind.GITHUB, SourceKind.JIRA})
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"' r"|'(?:[^'\\]|\\.)*'")
_ORDERED: Final = re.compile(r"\border\s+by\b", re.IGNORECASE)


def _https(value: str) -> str:
    try:
        return locations.parse_location(value).url.rstrip("/")
    except Refused:
        raise ValueError("must be an https address at port 443, such as https://example.com") from None


def _variable(value: str) -> str:
    if credentials.ENVIRONMENT_NAME.fullmatch(value) is None:
        raise ValueError("must name a variable that begins with AUTOMATION_SECRET_")
    return value


def _time_of_day(value: str) -> str:
    if re.fullmatch(r"[0-2][0-9]:[0-5][0-9]", value) is None:
        raise ValueError("must be a time of day, such as 09:00")
    try:
        return time.fromisoformat(value).strftime("%H:%M")
    except ValueError:
        raise ValueError("must be a time of day, such as 09:00") from None


def _zone(value: str) -> str:
    if value not in available_timezones():
        raise ValueError("is not a time zone of the tz database")
    return value


def _jql(value: str) -> str:
    if _ORDERED.search(value):
        raise ValueError("must have no ORDER BY: the oldest updates come first")
    depth = 0
    for character in _QUOTED.sub("", value):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            break
    if depth:  # or it would end the brackets that bind it to what is new
        raise ValueError("must open and close its brackets in pairs")
    return value


Https = Annotated[str, AfterValidator(_https)]
Variable = Annotated[str, AfterValidator(_variable)]
Actors = Annotated[list[Annotated[str, Field(min_length=1, max_length=255)]], Field(max_length=100)]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    own_actors: Actors = []
    """Whose doing starts nothing, beside the token's own account."""
    token_env: Variable | None = None
    signing_env: Variable | None = None


class GitHubSettings(_Settings):
    base_url: Https = "https://api.github.com"


class JiraSettings(_Settings):
    base_url: Https
    email: Annotated[str, Field(min_length=3, max_length=255, pattern=r"^[^\s@:]+@[^\s@]+$")]
    jql: Annotated[str, Field(max_length=2_000), AfterValidator(_jql)] = ""
    fields: Annotated[list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_*-]{1,64}$")]], Field(max_length=50)] = []


class ScheduleSettings(_Settings):
    at: Annotated[str, AfterValidator(_time_of_day)]
    zone: Annotated[str, AfterValidator(_zone)]


class HookSettings(_Settings):
    form: Literal["github", "standard"]
    url: Https | None = None
    """Where messages to this source go."""


class SlackSettings(_Settings):
    base_url: Https = "https://slack.com"


_MODELS: Final[dict[SourceKind, type[_Settings]]] = {
    SourceKind.GITHUB: GitHubSettings,
    SourceKind.JIRA: JiraSettings,
    SourceKind.SCHEDULE: ScheduleSettings,
    SourceKind.HOOK: HookSettings,
    SourceKind.SLACK: SlackSettings,
}


def fault_of_source_settings(kind: SourceKind, settings: Mapping[str, Any]) -> Refusal | None:
    try:
        _MODELS[kind].model_validate(settings)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        said = str(first["msg"]).removeprefix("Value error, ")
        return invalid(f"settings.{place}", said[:1].lower() + said[1:])
    return None
