"""An error's analysis again: when, how often at most, and by which event.

The event's key comes from the error's id, so there is one event for all its analyses: its ledger row is set back to
wait, and its outbox row to be sent, both until the retry is due. An event that retention has deleted is written anew.
The database's clock says when it is due, whatever this process's says; the error's own `next_retry_at` is for people.
"""

from datetime import datetime, timedelta

from dpp_project.outbox import resending, writing
from dpp_project.outbox.models import OutboxMessage
from dpp_project.outbox.policy import POLICY
from ops.auth_errors import event_types, transitions
from ops.auth_errors.models import AuthError


def may_retry(error: AuthError) -> bool:
    return POLICY.after_failure(error.retry_count) is not None


def send_again(error: AuthError, *, now: datetime) -> None:
    """In the caller's transaction, which holds the row's lock and has asked `may_retry`."""
    step = POLICY.after_failure(error.retry_count)
    if step is None:
        raise ValueError("it was retried as often as it may be")
    due = now + timedelta(seconds=step.delay_seconds)
    moved = transitions.mark_auth_error_retried(auth_error_id=error.pk, retry_count=step.count, next_retry_at=due)
    if moved is transitions.StepOutcome.LOST:
        raise RuntimeError("an auth error was moved under its lock")
    event = OutboxMessage.objects.filter(idempotency_key=event_types.ANALYSIS_REQUESTED.key(error.pk)).first()
    if event is not None and resending.handle_anew(event.pk, after_seconds=step.delay_seconds):
        return
    if event is not None:  # its analysis has committed, so no consumer is at it but one whose message came twice
        raise RuntimeError("the event of an analysis that is complete is being handled")
    _write_anew(error, now=now, after_seconds=step.delay_seconds)


def _write_anew(error: AuthError, *, now: datetime, after_seconds: float) -> None:
    anew = event_types.analysis_requested(
        auth_error_id=error.pk,
        request_id=error.dedup_key,
        occurred_at=error.occurred_at,
        requested_at=now,
        tenant_id=error.tenant_id,
    )
    writing.insert_event(anew)
    event = OutboxMessage.objects.get(idempotency_key=event_types.ANALYSIS_REQUESTED.key(error.pk))
    resending.handle_anew(event.pk, after_seconds=after_seconds)
