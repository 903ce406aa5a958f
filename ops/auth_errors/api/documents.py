"""What the addresses of auth errors take and answer."""

import re
import uuid
from datetime import UTC, date, datetime
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr, WithJsonSchema

from dpp_project.http.cursors import CursorParameter
from ops.auth_errors import reads
from ops.auth_errors.models import REASON_LENGTH_MAX, AuthError, ClusterDecision
from ops.auth_errors.reads import ClusterSummary
from ops.auth_errors.reports.cleaning import plain_text
from ops.auth_errors.states import AuthErrorStatus, ClusterStatus, DecisionType

REQUEST_ID_LENGTH_MAX: Final = 200
_MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WITHOUT_OFFSET: Final = "send a date and time with its offset, as in 2026-03-01T12:00:00+09:00"


def _auth_error_moment(value: Any) -> datetime:
    """As Java's OffsetDateTime writes it; Python keeps microseconds of its nanoseconds."""
    if not isinstance(value, str) or _MOMENT.fullmatch(value) is None:
        raise ValueError(_WITHOUT_OFFSET)
    try:
        found = datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(_WITHOUT_OFFSET) from None
    if found < _EARLIEST:
        raise ValueError("it is before 1970")
    return found


Moment = Annotated[
    datetime, BeforeValidator(_auth_error_moment), WithJsonSchema({"type": "string", "format": "date-time"})
]


def _storable_auth_error_text(value: Any) -> Any:
    """Before it is measured: what Postgres cannot hold is gone, and a blank text is empty."""
    if not isinstance(value, str):
        return value
    return value.strip() if value.isascii() and "\0" not in value else plain_text(value) or ""


_Plain: Final = BeforeValidator(_storable_auth_error_text)
Text = Annotated[StrictStr | None, _Plain, Field(description="Masked; null and empty are the same.")]


class AuthErrorReport(BaseModel):
    """One authentication error, as it happened. The whole body takes 256 KiB at most."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requestId: Annotated[  # noqa: N815  the policy's names
        StrictStr,
        _Plain,
        Field(
            min_length=1,
            max_length=REQUEST_ID_LENGTH_MAX,
            description="Of the request that failed. The same id again finds the first report.",
            examples=["req-7f3a"],
        ),
    ]
    occurredAt: Annotated[Moment, Field(description="With its offset.", examples=["2026-03-01T12:00:00+09:00"])]  # noqa: N815
    httpStatus: Annotated[StrictInt, Field(ge=100, le=599, description="What was answered.", examples=[401])]  # noqa: N815
    exceptionClass: Annotated[StrictStr, _Plain, Field(min_length=1, examples=["com.acme.auth.TokenExpired"])]  # noqa: N815
    stacktrace: Annotated[
        StrictStr,
        _Plain,
        Field(min_length=1, description="Whole; cut to 8,000 characters once its frames are taken."),
    ]
    exceptionMessage: Text = None  # noqa: N815
    rootCauseClass: Text = None  # noqa: N815
    rootCauseMessage: Text = None  # noqa: N815
    requestUri: Text = None  # noqa: N815
    httpMethod: Text = None  # noqa: N815
    clientIp: Text = None  # noqa: N815
    userAgent: Text = None  # noqa: N815
    sessionId: Annotated[StrictStr | None, _Plain, Field(description="Kept as a keyed hash alone.")] = None  # noqa: N815
    userId: Text = None  # noqa: N815

    def texts(self) -> dict[str, str | None]:
        return self.model_dump(exclude={"occurredAt", "httpStatus"})


class RecordedAnswer(BaseModel):
    model_config = ConfigDict(frozen=True)

    auth_error_id: str = Field(examples=["0199c0de-0000-7000-8000-000000000001"])
    status: AuthErrorStatus
    recorded_at: datetime


class AuthErrorsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=200, description="Auth errors on a page.")] = 50
    cursor: CursorParameter = None
    status: Annotated[AuthErrorStatus | None, Field(description="Only such.")] = None
    cluster: Annotated[uuid.UUID | None, Field(description="Only of this cluster and what is merged into it.")] = None
    exception_class: Annotated[
        str | None,
        Field(
            alias="class",
            max_length=300,
            pattern=r"^[^\x00-\x1f\x7f-\x9f\ufffd]+$",
            description="Only with this class.",
        ),
    ] = None
    since: Annotated[Moment | None, Field(description="Only recorded at that time or later, with its offset.")] = None


class ClustersQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=100, description="Clusters on a page.")] = 50
    cursor: CursorParameter = None
    status: Annotated[ClusterStatus | None, Field(description="Only such clusters.")] = None


class DecisionRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    decision: DecisionType
    reason: Annotated[
        StrictStr, Field(max_length=REASON_LENGTH_MAX, description="Why, for later readers and the audit trail.")
    ] = ""


class MergeRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    into: Annotated[uuid.UUID, Field(description="The cluster that it shall count as.")]


class LifeLine(BaseModel):
    """One thing that happened to an auth error."""

    model_config = ConfigDict(frozen=True)

    at: datetime
    what: str = Field(examples=["auth.error.recorded.v1 handled"])
    detail: str = Field(description="For operators.")
    by: str = Field(description="Who decided; for operators.")


class AuthErrorAnswer(BaseModel):
    """A tenant sees of its own report all but what is the operators': cluster, hash, and who decided why."""

    model_config = ConfigDict(frozen=True)

    auth_error_id: str
    tenant_id: str
    request_id: str
    status: AuthErrorStatus
    recorded_at: datetime
    occurred_at: datetime
    http_status: int
    exception_class: str
    root_cause_class: str | None
    request_uri: str | None
    http_method: str | None
    client_ip: str | None
    user_agent: str | None
    session_hash: str | None
    user_id: str | None
    retry_count: int
    next_retry_at: datetime | None
    truncated: bool = Field(description="A text was cut.")
    cluster_id: str | None = Field(description="For operators.")
    stack_hash: str | None = Field(description="For operators.")
    exception_message: str | None = Field(description="Null in a list.")
    root_cause_message: str | None = Field(description="Null in a list.")
    stacktrace: str | None = Field(description="Null in a list.")
    events: list[LifeLine] | None = Field(description="Its life, oldest first; null in a list.")

    @classmethod
    def in_a_list(cls, error: AuthError, *, for_operator: bool) -> Self:
        return cls(
            **_auth_error_facts(error, for_operator=for_operator),
            exception_message=None,
            root_cause_message=None,
            stacktrace=None,
            events=None,
        )

    @classmethod
    def whole(cls, error: AuthError, *, for_operator: bool) -> Self:
        return cls(
            **_auth_error_facts(error, for_operator=for_operator),
            exception_message=error.exception_message,
            root_cause_message=error.root_cause_message,
            stacktrace=error.stacktrace,
            events=[
                LifeLine(
                    at=line.at,
                    what=line.what,
                    detail=line.detail if for_operator else "",
                    by=line.by if for_operator else "",
                )
                for line in reads.life_of(error)
            ],
        )


def _auth_error_facts(error: AuthError, *, for_operator: bool) -> dict[str, Any]:
    names = (
        *("tenant_id", "status", "recorded_at", "occurred_at", "http_status", "exception_class", "root_cause_class"),
        *("request_uri", "http_method", "client_ip", "user_agent", "session_hash", "user_id", "retry_count"),
        *("next_retry_at", "truncated"),
    )
    has_cluster = for_operator and error.cluster_id is not None
    return {name: getattr(error, name) for name in names} | {
        "auth_error_id": str(error.pk),
        "request_id": error.dedup_key,
        "cluster_id": str(error.cluster_id) if has_cluster else None,
        "stack_hash": error.stack_hash if has_cluster else None,
    }


class AuthErrors(BaseModel):
    model_config = ConfigDict(frozen=True)

    auth_errors: list[AuthErrorAnswer]
    next_cursor: str | None = Field(description="Hand it back as `cursor` for older ones; null at the end.")


class DayCount(BaseModel):
    model_config = ConfigDict(frozen=True)

    day: date
    occurrences: int


class ClusterAnswer(BaseModel):
    model_config = ConfigDict(frozen=True)

    cluster_id: str
    status: ClusterStatus
    hash_version: int
    stack_hash: str
    exception_class: str
    top_frame: str
    occurrences: int = Field(description="With those of what is merged into it.")
    first_seen_at: datetime
    last_seen_at: datetime
    resolved_at: datetime | None
    regressed_at: datetime | None = Field(description="When an error came back after it was resolved.")
    newest_auth_error_id: str | None
    tenants: list[str] = Field(description="Whose errors; fifty at most.")
    trend: list[DayCount] = Field(description="The last 14 days (UTC), oldest first.")
    merged: list[str] = Field(description="The clusters that count as it.")
    counts_as: str | None = Field(description="The cluster that it is merged into.")

    @classmethod
    def of(cls, summary: ClusterSummary) -> Self:
        cluster = summary.cluster
        return cls(
            cluster_id=str(cluster.pk),
            status=ClusterStatus(cluster.status),
            hash_version=cluster.hash_version,
            stack_hash=cluster.stack_hash,
            exception_class=cluster.exception_class,
            top_frame=cluster.top_frame,
            occurrences=summary.occurrences,
            first_seen_at=summary.first_seen_at,
            last_seen_at=cluster.last_seen_at,
            resolved_at=cluster.resolved_at,
            regressed_at=cluster.regressed_at,
            newest_auth_error_id=None if summary.newest_error_id is None else str(summary.newest_error_id),
            tenants=list(summary.tenants),
            trend=[DayCount(day=day, occurrences=count) for day, count in summary.trend.items()],
            merged=[str(one) for one in summary.merged],
            counts_as=None if summary.counts_as is None else str(summary.counts_as),
        )


class Clusters(BaseModel):
    model_config = ConfigDict(frozen=True)

    clusters: list[ClusterAnswer]
    next_cursor: str | None = Field(description="Hand it back as `cursor` for older ones; null at the end.")


class ClusterDecisionAnswer(BaseModel):
    model_config = ConfigDict(frozen=True)

    cluster_id: str
    decision: DecisionType
    by: str
    reason: str
    at: datetime
    decided: int = Field(description="How many errors so far.")
    finished: bool = Field(description="False: the others follow within minutes.")

    @classmethod
    def of(cls, decision: ClusterDecision) -> Self:
        return cls(
            cluster_id=str(decision.cluster_id),
            decision=DecisionType(decision.decision),
            by=decision.by,
            reason=decision.reason,
            at=decision.at,
            decided=decision.decided,
            finished=decision.finished_at is not None,
        )
