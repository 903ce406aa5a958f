"""A dead letter sent again, because a person says so: the fault it died of has been mended.

Sending is repeatable: a death between sending and noting it leaves a letter that looks unsent, and a second message
does nothing that the first one did not. What dies again comes back as a letter of its own.
"""

import structlog
from django.db import transaction

from dpp_project import clock
from dpp_project.audit import trail
from dpp_project.aws import sqs_sender
from dpp_project.aws.sqs_sender import QueueMessage, SendFailed
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from reaper.models import DeadLetter
from runs.models import Run
from runs.states import MoneyState, Status
from runs.submit import wake_worker
from runs.submit.wake_worker import Wakeup

log = structlog.get_logger("dpp.reaper")


def redrive(letter: DeadLetter, *, actor: str) -> Refusal | None:
    refusal = may_redrive(letter)
    if refusal is not None:
        return refusal
    try:
        if letter.run_id is None:
            sqs_sender.shared_sender().send(QueueMessage(bytes(letter.raw or b"").decode("utf-8", "surrogatepass")))
        else:
            wake_worker.send_wakeup(Wakeup.of(Run.objects.get(run_id=letter.run_id)))
    except SendFailed as error:
        return Refusal(ReasonCode.SERVICE_UNAVAILABLE, f"the queue did not take it ({error}); try again", "letter")
    with transaction.atomic():
        DeadLetter.objects.filter(pk=letter.pk).update(redriven_at=clock.now(), redriven_by=actor)
        trail.record_in_trail(
            "dead letter sent again",
            actor=actor,
            subject=f"dead letter {letter.pk}",
            tenant_id=letter.tenant_id,
            before={"redriven_by": letter.redriven_by},
            after={"redriven_by": actor, "run_id": letter.run_id},
        )
    log.info("dead letter redriven", letter=letter.pk, run_id=str(letter.run_id or ""), actor=actor)
    return None


def may_redrive(letter: DeadLetter) -> Refusal | None:
    """A run that has started or ended needs no waking; the mere beginning of some poison is no message."""
    if letter.run_id is None:
        if letter.is_whole:
            return None
        return Refusal(ReasonCode.CONFLICT, f"only the beginning of its {letter.size_bytes} bytes was kept", "letter")
    run = Run.objects.filter(run_id=letter.run_id).first()
    if run is None:
        return Refusal(ReasonCode.NOT_FOUND, f"there is no run {letter.run_id}", "letter")
    if run.status != Status.QUEUED or run.money_state != MoneyState.RESERVED or run.finalize_stage is not None:
        state = " ".join(part for part in (run.status, run.money_state, run.finalize_stage) if part)
        return Refusal(ReasonCode.CONFLICT, f"its run is {state} and waits for no message", "letter")
    return None
