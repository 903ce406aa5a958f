"""An operator has a run's message sent again at once, without waiting for the requeuer.

Sending is repeatable: a run starts by compare-and-set, and a message too many does nothing. The row is left as it is.
A death between the message and its entry in the audit trail leaves the message alone.
"""

import uuid

import structlog
from django.db import transaction

from dpp_project.audit import trail
from dpp_project.aws.sqs_sender import SendFailed
from runs.models import Run
from runs.submit import wake_worker
from runs.submit.wake_worker import Wakeup

log = structlog.get_logger("dpp.run")


def send_again(*, run_id: uuid.UUID, actor: str) -> str | None:
    """Why nothing was sent, in words for the operator; None when the queue has the message."""
    run = Run.objects.filter(run_id=run_id).first()
    if run is None:
        return "there is no such run"
    if not run.waits_for_worker:
        state = " ".join(part for part in (run.status, run.money_state, run.finalize_stage) if part)
        return f"it is {state} and waits for no message"
    try:
        wake_worker.send_wakeup(Wakeup.of(run))
    except SendFailed as error:
        return f"the queue did not take its message ({error})"
    with transaction.atomic():
        trail.record_in_trail("run sent again", actor=actor, subject=f"run {run_id}", tenant_id=run.tenant_id)
    log.info("run sent again", run_id=str(run_id), tenant_id=run.tenant_id, actor=actor)
    return None
