"""The two events of an auth error and their keys, as the policy has them. Both keys come from the error's id alone."""

import uuid
from datetime import datetime
from typing import Final

from dpp_project.outbox.events import EventDescriptor, NewEvent

AGGREGATE: Final = "auth_error"
RECORDED: Final = EventDescriptor(
    aggregate_type=AGGREGATE, event_type="auth.error.recorded.v1", key_prefix="auth_error:recorded"
)
ANALYSIS_REQUESTED: Final = EventDescriptor(
    aggregate_type=AGGREGATE,
    event_type="auth.error.analysis.requested.v1",
    key_prefix="auth_error:analysis_requested",
)


def recorded_event(*, auth_error_id: uuid.UUID, request_id: str, occurred_at: datetime, tenant_id: str) -> NewEvent:
    return NewEvent(
        descriptor=RECORDED,
        aggregate_id=str(auth_error_id),
        payload={
            "authErrorId": str(auth_error_id),
            "requestId": request_id,
            "occurredAt": occurred_at.isoformat(),
        },
        tenant_id=tenant_id,
    )


def analysis_requested(
    *, auth_error_id: uuid.UUID, request_id: str, occurred_at: datetime, requested_at: datetime, tenant_id: str
) -> NewEvent:
    return NewEvent(
        descriptor=ANALYSIS_REQUESTED,
        aggregate_id=str(auth_error_id),
        payload={
            "authErrorId": str(auth_error_id),
            "requestId": request_id,
            "occurredAt": occurred_at.isoformat(),
            "requestedAt": requested_at.isoformat(),
        },
        tenant_id=tenant_id,
    )
