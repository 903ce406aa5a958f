"""manage.py provision --dry-run"""

from typing import Any

from dpp_project.aws import provisioning
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal


class Command(OpsCommand):
    help = "Make queue, dead-letter queue and bucket as the platform needs them; repair what drifted."
    changes = True

    def run(self, *, dry_run: bool, **_options: Any) -> CommandAnswer:
        try:
            done = provisioning.provision(dry_run=dry_run)
        except provisioning.CannotProvision as error:
            reason = ReasonCode.SERVICE_UNAVAILABLE if error.unreachable else ReasonCode.VALIDATION_FAILED
            raise CommandRefused(Refusal(reason, error.detail, error.variable)) from error
        document = {
            "changes": [
                {"resource": change.resource, "field": change.field, "found": change.found, "wanted": change.wanted}
                for change in done.changes
            ],
            "remarks": done.remarks,
        }
        lines = [str(change) for change in done.changes] or ["Everything is as it should be."]
        return CommandAnswer(document, lines, done.remarks)
