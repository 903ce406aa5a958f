"""What the addresses of workspaces take and answer."""

import re
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr, model_validator

from dpp_project.http.cursors import CursorParameter
from ops.workspaces import services
from ops.workspaces.explaining import Actor, NextStep
from ops.workspaces.models import Workspace, WorkspaceArchive, WorkspaceEvent
from ops.workspaces.specs import SpecDocument
from ops.workspaces.states import ArchiveState, DesiredState, Operation, Phase

NAME_LENGTH_MAX: Final = 63
TTL_SECONDS: Final = (60, 30 * 86_400)
SOURCE_LENGTH_MAX: Final = 200
HIDDEN: Final = "***"
_OURS: Final = re.compile(r"^(operator|key|command|admin):?")


def _not_settable(value: Any) -> Any:
    if value == "PENDING":
        raise ValueError("it cannot be asked to be PENDING, which keeps nothing; ask for ARCHIVED, or DELETE it")
    if value == "DELETED":
        raise ValueError("it is deleted by the method DELETE")
    return value


WorkspaceName = Annotated[
    StrictStr,
    Field(
        min_length=1,
        max_length=NAME_LENGTH_MAX,
        pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
        description="As a DNS label: a-z, 0-9 and -, at most 63 characters; one of yours at a time has it.",
        examples=["build-1"],
    ),
]
Ttl = Annotated[StrictInt, Field(ge=TTL_SECONDS[0], le=TTL_SECONDS[1])]
Settable = Annotated[
    Literal[DesiredState.RUNNING, DesiredState.STANDBY, DesiredState.ARCHIVED], BeforeValidator(_not_settable)
]
StandbyTtl = Annotated[
    Ttl | None, Field(description="RUNNING and unused for so long, it is put to STANDBY; null: never.")
]
ArchiveTtl = Annotated[
    Ttl | None,
    Field(description="In STANDBY and unused for so long, it is archived; null: never. Counts from its use."),
]


class WorkspaceRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: WorkspaceName
    spec: SpecDocument = SpecDocument()
    desired_state: Annotated[
        Literal[DesiredState.RUNNING, DesiredState.STANDBY],
        Field(description="STANDBY makes the home and starts nothing in it."),
    ] = DesiredState.RUNNING
    standby_ttl_seconds: StandbyTtl = services.STANDBY_TTL_DEFAULT
    archive_ttl_seconds: ArchiveTtl = services.ARCHIVE_TTL_DEFAULT

    def asked(self) -> services.NewWorkspace:
        return services.NewWorkspace(
            name=self.name,
            spec=self.spec,
            desired_state=DesiredState(self.desired_state),
            standby_ttl_seconds=self.standby_ttl_seconds,
            archive_ttl_seconds=self.archive_ttl_seconds,
        )


class WorkspaceChange(BaseModel):
    """What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"minProperties": 1})

    name: WorkspaceName | None = None
    desired_state: Settable | None = None
    standby_ttl_seconds: StandbyTtl = None
    archive_ttl_seconds: ArchiveTtl = None
    spec: Annotated[
        SpecDocument | None, Field(description="The whole spec; a running workspace is restarted with it.")
    ] = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        wanted = self.model_fields_set
        if not wanted or any(getattr(self, name) is None for name in wanted & {"name", "desired_state", "spec"}):
            raise ValueError(
                "send at least one of name, desired_state, spec and the two TTLs, and none but a TTL as null"
            )
        return self

    def wanted(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}


class WorkspaceUndeletion(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    desired_state: Settable = DesiredState.STANDBY
    name: Annotated[
        WorkspaceName | None, Field(description="Another name, where its own was taken meanwhile; left out: its own.")
    ] = None


class WorkspaceRecovery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Annotated[
        StrictStr,
        Field(
            alias="from",
            max_length=SOURCE_LENGTH_MAX,
            pattern=r"^(recheck|empty|archive:.+)$",
            description="`recheck`: look at everything anew, and go on if it is whole. `archive:` and the key of one of"
            " its archives: that is read back, and a new home is filled from it. `empty`: begin with an empty home.",
            examples=["recheck"],
        ),
    ]


class WorkspacesQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=200, description="Workspaces on a page.")] = 50
    cursor: CursorParameter = None
    phase: Annotated[Phase | None, Field(description="Only such.")] = None
    name: Annotated[
        str | None, Field(max_length=NAME_LENGTH_MAX, pattern=r"^[a-z0-9-]+$", description="Only of this name.")
    ] = None
    deleted: Annotated[bool, Field(description="Also those whose deletion was asked for.")] = False


class DeletionQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    discard: Annotated[bool, Field(description="Give up what is not archived. For a workspace in ERROR alone.")] = False


class TimelineQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=200, description="Events on a page.")] = 50
    cursor: Annotated[int | None, Field(ge=1, le=2**63 - 1, description="The `next_cursor` of the page before.")] = None


class WorkspaceCondition(BaseModel):
    """What was seen last, and since when it is so."""

    model_config = ConfigDict(frozen=True)

    status: bool
    reason: str
    message: str
    last_transition_time: str | None
    stale: bool = Field(description="The look after it failed: it may be otherwise by now.")

    @classmethod
    def of(cls, condition: dict[str, Any]) -> Self:
        return cls(
            status=bool(condition.get("status")),
            reason=str(condition.get("reason") or ""),
            message=str(condition.get("message") or ""),
            last_transition_time=condition.get("last_transition_time"),
            stale=bool(condition.get("stale")),
        )


class WorkspaceNext(BaseModel):
    """What it waits for, in words."""

    model_config = ConfigDict(frozen=True)

    said: str
    actor: Actor = Field(description="Who acts next.")
    at: datetime | None = Field(description="Not before; null: within seconds, or not by time.")

    @classmethod
    def of(cls, step: NextStep) -> Self:
        return cls(said=step.said, actor=step.next_actor, at=step.at)


class WorkspaceAnswer(BaseModel):
    """A workspace as it is asked for, and as it was seen last."""

    model_config = ConfigDict(frozen=True)

    workspace_id: str
    tenant_id: str
    name: str
    spec: dict[str, Any] = Field(description=f"As it was sent. Values of `env` are {HIDDEN} to keys that cannot write.")
    desired_state: DesiredState
    phase: Phase
    generation: int = Field(description="Grows with each change; also the ETag, for If-Match.", examples=[1])
    standby_ttl_seconds: int | None
    archive_ttl_seconds: int | None
    created_at: datetime
    last_access_at: datetime | None
    delete_requested_at: datetime | None
    deleted_at: datetime | None = Field(description="Neither container nor volume is left.")
    observed_at: datetime | None
    observed_generation: int = Field(description="The generation that the last look saw.")
    conditions: dict[str, WorkspaceCondition]
    operation: Operation
    op_step: str
    op_attempt: int
    op_started_at: datetime | None
    op_progress_bytes: int
    archive_key: str | None = Field(description="The archive that a restore would take.")
    error_reason: str = Field(description="Of ERROR, or of the last failure; else empty.")
    driver_id: str | None = Field(description="For operators: who holds it.")
    next: WorkspaceNext

    @classmethod
    def of(cls, workspace: Workspace, step: NextStep, *, for_operator: bool, shows_values: bool) -> Self:
        names = (
            *("tenant_id", "name", "desired_state", "phase", "generation", "standby_ttl_seconds"),
            *("archive_ttl_seconds", "created_at", "delete_requested_at", "deleted_at", "observed_at"),
            *("observed_generation", "operation", "op_step", "op_attempt", "op_started_at", "op_progress_bytes"),
            "archive_key",
        )
        access = getattr(workspace, "access", None)
        env = workspace.spec.get("env") or {}
        spec = workspace.spec if shows_values else workspace.spec | {"env": dict.fromkeys(env, HIDDEN)}
        return cls(
            **{name: getattr(workspace, name) for name in names},
            workspace_id=str(workspace.pk),
            spec=spec,
            last_access_at=None if access is None else access.last_access_at,
            conditions={name: WorkspaceCondition.of(one) for name, one in sorted(workspace.conditions.items())},
            error_reason=services.error_reason(workspace),
            driver_id=workspace.driver_id if for_operator else None,
            next=WorkspaceNext.of(step),
        )


class WorkspacesAnswer(BaseModel):
    model_config = ConfigDict(frozen=True)

    workspaces: list[WorkspaceAnswer]
    next_cursor: str | None = Field(description="Hand it back as `cursor` for older ones; null at the end.")


class ArchiveAnswer(BaseModel):
    model_config = ConfigDict(frozen=True)

    archive_key: str = Field(description="What `recover` takes, after `archive:`.")
    state: ArchiveState
    epoch: int | None = Field(description="Which of the workspace's homes it was made from.")
    object_bytes: int | None
    tar_bytes: int | None
    members: int | None
    sha256: str | None
    created_at: datetime
    verified_at: datetime | None = Field(description="When it was read back whole.")
    superseded_at: datetime | None = Field(description="When a newer one took its place; it goes two hours later.")

    @classmethod
    def of(cls, archive: WorkspaceArchive) -> Self:
        return cls(**{name: getattr(archive, name) for name in cls.model_fields})


class ArchivesAnswer(BaseModel):
    model_config = ConfigDict(frozen=True)

    archives: list[ArchiveAnswer] = Field(description="The newest 200, newest first.")


class EventAnswer(BaseModel):
    """One line of the timeline."""

    model_config = ConfigDict(frozen=True)

    event_id: int
    at: datetime
    kind: str = Field(examples=["Changed"])
    by: str = Field(description="A key of yours, `operator`, or the part of the platform that did it.")
    detail: dict[str, Any]

    @classmethod
    def of(cls, event: WorkspaceEvent, *, for_operator: bool) -> Self:
        by = event.actor if for_operator or _OURS.match(event.actor) is None else "operator"
        return cls(event_id=event.id, at=event.at, kind=event.kind, by=by, detail=event.detail)


class TimelineAnswer(BaseModel):
    model_config = ConfigDict(frozen=True)

    events: list[EventAnswer]
    next_cursor: int | None = Field(description="Hand it back as `cursor` for older ones; null at the end.")
