"""manage.py provision --dry-run"""

from typing import Any

from django.db import Error, transaction

from dpp_project import actors
from dpp_project.audit import trail
from dpp_project.aws import provisioning
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal


class Command(OpsCommand):
    help = "Make queue, dead-letter queue and bucket as the platform needs them; repair what drifted."
    changes = True

    def run(self, *, dry_run: bool, **_options: Any) -> CommandAnswer:
        try:
            done = provisioning.provision_aws(dry_run=dry_run)
        except provisioning.CannotProvision as error:
            reason = ReasonCode.SERVICE_UNAVAILABLE if error.unreachable else ReasonCode.VALIDATION_FAILED
            raise CommandRefused(Refusal(reason, error.detail, error.variable)) from error
        changes = [
            {"resource": change.resource, "field": change.field, "found": change.found, "wanted": change.wanted}
            for change in done.changes
        ]
        remarks = [*done.remarks, *([] if dry_run or not changes else _entered(changes))]
        lines = [str(change) for change in done.changes] or ["Everything is as it should be."]
        return CommandAnswer({"changes": changes, "remarks": remarks}, lines, remarks)


def _entered(changes: list[dict[str, Any]]) -> list[str]:
    """It is needed before the database is there, too: then it says that the audit trail holds no entry of it."""
    try:
        with transaction.atomic():
            trail.record_in_trail(
                "queues and bucket provisioned", actor=actors.COMMAND, subject="aws", after={"made": changes}
            )
    except Error as error:
        return [f"not entered into the audit trail ({type(error).__name__})"]
    return []
