"""What the addresses of webhooks take and answer."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictStr, model_validator

from dpp_project.http.cursors import CursorParameter
from dpp_project.outbound.locations import URL_CHARACTERS_MAX
from dpp_project.outbound.refusals import Blocked, Failure
from tenants.webhooks import bodies, selectors
from tenants.webhooks.event_names import EventName
from tenants.webhooks.models import DeliveryStatus, EndpointStatus, WebhookAttempt, WebhookDelivery, WebhookEndpoint

Url = Annotated[
    StrictStr,
    Field(
        min_length=1,
        max_length=URL_CHARACTERS_MAX,
        description="https, port 443, a name that leads to public addresses only; no user name, no fragment.",
        examples=["https://example.com/webhooks/dpp"],
    ),
]
Subscribable = Literal[
    EventName.RUN_COMPLETED,
    EventName.RUN_FAILED,
    EventName.RUN_REFUNDED,
    EventName.RUN_UPHELD,
    EventName.BUDGET_LOW,
    EventName.CAP_REACHED,
    EventName.ENDPOINT_DISABLED,
]
Events = Annotated[
    list[Subscribable],
    Field(
        min_length=1,
        max_length=50,
        description="What it is sent; docs/webhooks.md says when each comes. The order and repetitions do not matter.",
        examples=[["run.completed", "run.failed"]],
    ),
]


class WebhookRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Url
    events: Events


class WebhookChange(BaseModel):
    """What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"minProperties": 1})

    url: Url | None = None
    events: Events | None = None
    status: Annotated[
        Literal["ENABLED", "PAUSED"] | None,
        Field(description="PAUSED holds its events; ENABLED resumes it and sends what was held."),
    ] = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set or any(getattr(self, name) is None for name in self.model_fields_set):
            raise ValueError("send at least one of url, events and status, and none as null")
        return self


class RecoverRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    since: Annotated[
        AwareDatetime,
        Field(
            description="What happened from then on is sent; at most 30 days back, with an offset.",
            examples=["2026-03-01T00:00:00Z"],
        ),
    ]


class DeliveriesQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=200, description="Deliveries on a page.")] = 50
    cursor: CursorParameter = None
    status: Annotated[DeliveryStatus | None, Field(description="Only such deliveries.")] = None


class Webhook(BaseModel):
    """A webhook as its owner sees it. Its secrets are not part of it."""

    model_config = ConfigDict(frozen=True)

    webhook_id: str
    url: str = Field(description="As it is called: the name in ASCII, the path quoted.")
    events: list[EventName]
    status: EndpointStatus
    reason: str = Field(description="Why it is DISABLED; else empty.", examples=[""])
    created_at: datetime
    consecutive_failures: int = Field(description="Since the last success.", examples=[0])
    failing_since: datetime | None
    paused_until: datetime | None = Field(description="After five failures in a row nothing is sent until then.")
    last_success_at: datetime | None

    @classmethod
    def of(cls, endpoint: WebhookEndpoint) -> Self:
        return cls(**_webhook_document_facts(endpoint))


class NewWebhook(Webhook):
    """With its signing secret, which is shown this once."""

    secret: str | None = Field(
        description="Shown once, here. null where the Idempotency-Key found a webhook that stood already.",
        examples=["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"],
    )

    @classmethod
    def made(cls, endpoint: WebhookEndpoint, secret: str | None) -> Self:
        return cls(**_webhook_document_facts(endpoint), secret=secret)


class Webhooks(BaseModel):
    model_config = ConfigDict(frozen=True)

    webhooks: list[Webhook] = Field(description="All of them, the oldest first; there are ten at most.")


class RecoveredWebhook(BaseModel):
    model_config = ConfigDict(frozen=True)

    webhook: Webhook
    deliveries: int = Field(description="How many are sent now; of over 5,000 the rest follows.", examples=[12])


class WebhookTry(BaseModel):
    """What a try came to. What was answered is not kept."""

    model_config = ConfigDict(frozen=True)

    at: datetime
    status_code: int | None = Field(description="Of the answer; null where none came.")
    ms: int
    error: str = Field(description="Why no answer came: TIMEOUT, DNS_ERROR, TLS_ERROR and so on; else empty.")

    @classmethod
    def of(cls, attempt: WebhookAttempt) -> Self:
        return cls(
            at=attempt.at, status_code=attempt.status_code, ms=attempt.ms, error=_disclosed_webhook_error(attempt.error)
        )


def _disclosed_webhook_error(error: str) -> str:
    """Where a name leads inside is nobody's business: as at registration, it does not lead to a public address."""
    return Failure.DNS_ERROR.value if error in Blocked.__members__ else error


class Delivery(BaseModel):
    model_config = ConfigDict(frozen=True)

    delivery_id: str
    webhook_id: str
    message_id: str = Field(description="The `webhook-id` header of each try.")
    event: str
    happened_at: datetime
    status: DeliveryStatus
    reason: str = Field(description="Why it FAILED; else empty.")
    attempts: int = Field(description="Of the schedule; sending it again begins a new one.")
    next_attempt_at: datetime | None = Field(description="Of a PENDING one.")
    created_at: datetime
    ended_at: datetime | None
    tries: list[WebhookTry] = Field(description="The latest twenty, newest first.")

    @classmethod
    def of(cls, delivery: WebhookDelivery) -> Self:
        return cls(
            delivery_id=str(delivery.delivery_id),
            webhook_id=str(delivery.endpoint_id),
            message_id=bodies.webhook_id(delivery.message),
            event=delivery.message.event,
            happened_at=delivery.message.at,
            status=DeliveryStatus(delivery.status),
            reason=delivery.reason,
            attempts=delivery.attempts,
            next_attempt_at=delivery.next_attempt_at,
            created_at=delivery.created_at,
            ended_at=delivery.ended_at,
            tries=[WebhookTry.of(one) for one in selectors.latest_tries(delivery)],
        )


class Deliveries(BaseModel):
    model_config = ConfigDict(frozen=True)

    deliveries: list[Delivery]
    next_cursor: str | None = Field(description="Hand it back as `cursor` for older ones; null at the end.")


def _webhook_document_facts(endpoint: WebhookEndpoint) -> dict[str, Any]:
    return {
        "webhook_id": str(endpoint.endpoint_id),
        "url": endpoint.url,
        "events": endpoint.events,
        "status": endpoint.status,
        "reason": endpoint.reason,
        "created_at": endpoint.created_at,
        "consecutive_failures": endpoint.consecutive_failures,
        "failing_since": endpoint.failing_since,
        "paused_until": endpoint.paused_until,
        "last_success_at": endpoint.last_success_at,
    }
