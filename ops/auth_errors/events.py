"""Handles the two events of an auth error, each inside the consumer's one transaction.

    auth.error.recorded.v1             NEW -> ANALYSIS_REQUESTED, and the next event
    auth.error.analysis.requested.v1   ANALYSIS_REQUESTED -> ANALYSIS_COMPLETED: hash, cluster, rules

When a retry is due, the ledger's row alone decides, by the database's clock: no event of it is claimed earlier.

A terminal error is skipped, whatever comes and in whatever order; so is one that has come further than its event. The
row is locked first: what is decided about it meanwhile waits, or is seen here.
"""

import uuid
from typing import Final

import structlog

from dpp_project import clock
from dpp_project.outbox import writing
from dpp_project.outbox.events import Event, Handler, NotRetryable
from ops.auth_errors import analysis, event_types, metrics, transitions
from ops.auth_errors.models import AuthError
from ops.auth_errors.states import TERMINAL, AuthErrorStatus
from ops.auth_errors.transitions import StepOutcome

log = structlog.get_logger("dpp.ops")


def on_recorded(event: Event) -> None:
    error = _locked(event)
    if error.status != AuthErrorStatus.NEW:
        _skip(error, event)
        return
    if transitions.request_analysis(auth_error_id=error.pk) is StepOutcome.LOST:
        raise RuntimeError("an auth error was moved under its lock")
    writing.insert_event(
        event_types.analysis_requested(
            auth_error_id=error.pk,
            request_id=error.dedup_key,
            occurred_at=error.occurred_at,
            requested_at=clock.now(),
            tenant_id=error.tenant_id,
        )
    )


def on_analysis_requested(event: Event) -> None:
    error = _locked(event)
    if error.status in TERMINAL or error.status == AuthErrorStatus.ANALYSIS_COMPLETED:
        _skip(error, event)
        return
    if (
        error.status != AuthErrorStatus.ANALYSIS_REQUESTED
        and transitions.request_analysis(auth_error_id=error.pk) is StepOutcome.LOST
    ):
        raise RuntimeError("an auth error was moved under its lock")
    analysis.analyze_auth_error(error)


def _locked(event: Event) -> AuthError:
    try:
        auth_error_id = uuid.UUID(event.payload["authErrorId"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise NotRetryable("authErrorId is missing or no id") from None
    error = AuthError.objects.select_for_update().filter(pk=auth_error_id).first()
    if error is None:
        raise NotRetryable("there is no such auth error")
    return error


def _skip(error: AuthError, event: Event) -> None:
    metrics.SKIPPED.labels(event.event_type).inc()
    log.info("event skipped", auth_error_id=str(error.pk), status=error.status, event_type=event.event_type)


HANDLERS: Final = (
    Handler(event_types.RECORDED.event_type, on_recorded),
    Handler(event_types.ANALYSIS_REQUESTED.event_type, on_analysis_requested),
)
