"""What the addresses of automations' sources take and answer. Tokens and secrets are taken, and never answered."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr, model_validator

from ops.automations.models import AutomationSource
from ops.automations.sources import failures
from ops.automations.sources.acts import SECRET_LENGTH_MAX, Changed
from ops.automations.states import SourceKind

Settings = Annotated[
    dict[str, JsonValue],
    Field(description="Nothing secret: addresses, a query, a time of day, own actors. Each kind has its own."),
]
GivenSecret = Annotated[SecretStr | None, Field(min_length=1, max_length=SECRET_LENGTH_MAX)]


class NewSource(BaseModel):
    """Where events are to come from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(max_length=64, description="a-z, 0-9, - and _; rules and messages name it so.")]
    kind: SourceKind
    settings: Settings = {}
    token: Annotated[
        GivenSecret, Field(description="Of GITHUB, JIRA and SLACK; or name a variable in `token_env`.")
    ] = None
    signing_secret: Annotated[GivenSecret, Field(description="Of HOOK and SLACK. Left out, a HOOK is given one.")] = (
        None
    )


class SourceChange(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    settings: Settings


class SourceRotation(BaseModel):
    """A new token at once, or a new signing secret, beside which the former signs for a day more."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    token: GivenSecret = None
    signing_secret: Annotated[GivenSecret, Field(description="Left out beside `token`, one is made.")] = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.token is not None and self.signing_secret is not None:
            raise ValueError("give a token or a signing secret, and the other by a request of its own")
        return self


class SourceAnswer(BaseModel):
    name: str
    kind: str
    settings: dict[str, JsonValue]
    has_secrets: Annotated[bool, Field(description="Whether a token or a signing secret lies encrypted.")]
    enabled: bool
    looked_at: datetime | None
    next_look_at: datetime
    failures: Annotated[int, Field(description="Looks in a row that failed.")]
    last_error: str
    told: Annotated[str, Field(description="What is wrong with it, since when, and the cure; empty: nothing.")]

    @classmethod
    def of(cls, source: AutomationSource) -> Self:
        return cls(
            name=source.name,
            kind=source.kind,
            settings=source.settings,
            has_secrets=source.sealed_secrets is not None,
            enabled=source.enabled,
            looked_at=source.looked_at,
            next_look_at=source.next_look_at,
            failures=source.failures,
            last_error=source.last_error,
            told=failures.source_failure_told(source),
        )


class SourceWithSecret(SourceAnswer):
    secret: Annotated[str | None, Field(description="The signing secret that was made, shown this once.")] = None

    @classmethod
    def after(cls, changed: Changed) -> Self:
        return cls(**SourceAnswer.of(changed.source).model_dump(), secret=changed.secret or None)


class Sources(BaseModel):
    sources: list[SourceAnswer]
