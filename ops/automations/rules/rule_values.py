"""A rule as it is asked for: the body of the API, and what commands and the console fill in."""

import uuid
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from budget.money import AmountInvalid, parse_usd
from dpp_project.constants import TIMEBOX_SECONDS_MAX

CONTEXT_LENGTH_MAX: Final = 65_536


def _rule_usd_amount(text: str) -> str:
    try:
        parse_usd(text)
    except AmountInvalid as error:
        raise ValueError(str(error)) from None
    return text


RuleUsd = Annotated[str, AfterValidator(_rule_usd_amount), Field(examples=["0.2500"])]


class Notify(BaseModel):
    """Where a rule's results and alarms are said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    channel: Literal["slack", "webhook"]
    target: Annotated[
        str,
        Field(
            min_length=1,
            max_length=500,
            description="A Slack channel's id, C0123456789 or team/C0123456789; or a hook source.",
        ),
    ]


class RuleValues(BaseModel):
    """What is bought when an event of the source matches, and how much of it at most."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(max_length=64, description="a-z, 0-9, - and _; for people, and in messages.")]
    source: Annotated[str, Field(max_length=64, description="The name of a source.")]
    tenant: Annotated[str, Field(max_length=62, description="Who pays; automations must be enabled for it.")]
    position: Annotated[int, Field(ge=0, le=1_000_000, description="The lowest that matches makes the task.")] = 100
    filter: Annotated[str, Field(max_length=2_000, description="CEL over `event`; empty: every event.")] = ""
    pack_type: Annotated[str, Field(max_length=64)]
    inputs: Annotated[
        dict[str, JsonValue],
        Field(
            description='The pack\'s inputs; `{"$": "event.path"}` stands for that JSON value, nothing is evaluated.'
        ),
    ]
    max_cost_usd: Annotated[RuleUsd, Field(description="The ceiling of all attempts of one task together.")]
    timebox_sec: Annotated[int, Field(ge=1, le=TIMEBOX_SECONDS_MAX)] = 90
    retries: Annotated[int, Field(ge=0, le=10, description="Further attempts after one that failed.")] = 1
    runs_per_hour: Annotated[int, Field(ge=1, le=100_000)]
    usd_per_day: Annotated[RuleUsd, Field(description="The day cap of the rule's own key.")]
    thread_runs_per_hour: Annotated[
        int, Field(ge=1, le=100_000, description="More in one thread within an hour are taken for a loop.")
    ] = 5
    workspace_id: uuid.UUID | None = None
    context_file: Annotated[
        str | None, Field(max_length=CONTEXT_LENGTH_MAX, description="Stands as CLAUDE.md in the workspace.")
    ] = None
    notify: Notify | None = None
    awaits_answers: Annotated[bool, Field(description="Its results ask; an answer makes a task that resumes.")] = False
    enabled: bool = True

    def columns(self) -> dict[str, Any]:
        left = self.model_dump(exclude={"name", "source", "tenant", "enabled"})
        return _columns(left)


class RuleChange(BaseModel):
    """What is left out stays; name, source and tenant stay in any case."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    position: Annotated[int, Field(ge=0, le=1_000_000)] = 100
    filter: Annotated[str, Field(max_length=2_000)] = ""
    pack_type: Annotated[str, Field(max_length=64)] = ""
    inputs: dict[str, JsonValue] = Field(default_factory=dict)
    max_cost_usd: RuleUsd = "0.0001"
    timebox_sec: Annotated[int, Field(ge=1, le=TIMEBOX_SECONDS_MAX)] = 90
    retries: Annotated[int, Field(ge=0, le=10)] = 1
    runs_per_hour: Annotated[int, Field(ge=1, le=100_000)] = 1
    usd_per_day: RuleUsd = "0.0001"
    thread_runs_per_hour: Annotated[int, Field(ge=1, le=100_000)] = 5
    workspace_id: uuid.UUID | None = None
    context_file: Annotated[str | None, Field(max_length=CONTEXT_LENGTH_MAX)] = None
    notify: Notify | None = None
    awaits_answers: bool = False
    enabled: bool | None = None

    def columns(self) -> dict[str, Any]:
        return _columns(self.model_dump(exclude_unset=True, exclude={"enabled"}))


def _columns(values: dict[str, Any]) -> dict[str, Any]:
    columns = dict(values)
    for field, column in (("max_cost_usd", "max_cost_usd_micros"), ("usd_per_day", "usd_per_day_micros")):
        if field in columns:
            columns[column] = parse_usd(columns.pop(field))
    if "notify" in columns:
        notify = columns.pop("notify") or {"channel": "", "target": ""}
        columns |= {f"notify_{name}": notify[name] for name in ("channel", "target")}
    return columns
