"""The emergency stop: while it is on, an ops cycle runs nothing."""

import structlog
from django.db import transaction

from dpp_project.audit import trail
from ops.tickets.models import EmergencySwitch
from tenants.services import text_fault

log = structlog.get_logger("dpp.ops")


def emergency_state() -> EmergencySwitch | None:
    """The latest turn of the switch; None is off, it was never touched."""
    return EmergencySwitch.objects.order_by("-pk").first()


def is_on() -> bool:
    latest = emergency_state()
    return latest is not None and latest.is_on


def turn_emergency_stop(*, on: bool, actor: str, reason: str) -> EmergencySwitch | None:
    """A further row, also where nothing changes: who said so again, and why, is worth keeping. None: no reason."""
    if text_fault("reason", reason) is not None:
        return None
    with transaction.atomic():
        was = is_on()
        made = EmergencySwitch.objects.create(is_on=on, actor=actor, reason=reason.strip())
        trail.record_in_trail(
            "ticket cycle stopped" if on else "ticket cycle resumed",
            actor=actor,
            subject="ticket cycle",
            before={"stopped": was},
            after={"stopped": on},
            reason=reason.strip(),
        )
    log.warning("emergency stop", on=on, actor=actor, reason=reason)
    return EmergencySwitch.objects.get(pk=made.pk)
