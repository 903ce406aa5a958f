"""manage.py accept_ledger_loss --by ada --reason "primary burned, replica was 2 s behind" [--dry-run]"""

from typing import Any, Final

from django.core.management.base import CommandParser

from budget import ledger_loss
from budget.ledger_loss import Loss, TenantLoss
from dpp_project import actors
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand, unless_refused
from dpp_project.refusals import invalid
from dpp_project.signin.proof import prove_operator

PERMISSION: Final = "budget.add_ledgerentry"


class Command(OpsCommand):
    help = (
        "Go on with a Postgres that went back in time: enter what each tenant's ledger lacks as an ADJUST, and open"
        " money. Only where the lost part cannot be brought back."
    )
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("--by", required=True, help="your name; the entries carry it")
        parser.add_argument(
            "--approved-by",
            help="a second operator, above DPP_SOLO_LIMIT_USD; the passwords and codes of both are asked for, or are "
            "lines of standard input in this order",
        )
        parser.add_argument("--reason", required=True, help="what happened; shown to the tenants")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        if not options["by"].strip():
            raise CommandRefused(invalid("--by", "say who you are"))
        actor, approver = actors.claimed_actor(options["by"]), None
        if options["approved_by"] is not None and not dry_run:
            actor = unless_refused(prove_operator(options["by"], permission=PERMISSION))
            approver = unless_refused(
                prove_operator(options["approved_by"], permission=PERMISSION, field="--approved-by")
            )
            if actors.person_of(approver) == actors.person_of(actor):
                raise CommandRefused(invalid("--approved-by", "two people must agree on it"))
        loss = unless_refused(
            ledger_loss.accept_ledger_loss(actor=actor, reason=options["reason"], approved_by=approver, dry_run=dry_run)
        )
        lines = [f"missing at least {loss.missing}", *(_accepted_loss_line(tenant) for tenant in loss.tenants)]
        if dry_run:
            remark = "Nothing was entered; money stays closed."
        else:
            remark = "Money is open." if loss.opened else "Another rebuild is at work; money opens by itself."
        return CommandAnswer(_accepted_loss_document(loss), lines, [remark])


def _accepted_loss_document(loss: Loss) -> dict[str, Any]:
    return {
        "reference": loss.reference,
        "missing": {"runs": loss.missing.runs, "ends": loss.missing.ends, "entries": loss.missing.entries},
        "tenants": [
            {
                "tenant_id": tenant.tenant_id,
                "adjust_usd_micros": tenant.adjust_micros,
                "open_again": list(tenant.open_again),
            }
            for tenant in loss.tenants
        ],
        "opened": loss.opened,
    }


def _accepted_loss_line(tenant: TenantLoss) -> str:
    if tenant.adjust_micros is None:
        return f"{tenant.tenant_id}: Redis has no balance either; it stays as the ledger says"
    again = f"; open again, look at their second end: {', '.join(tenant.open_again)}" if tenant.open_again else ""
    return f"{tenant.tenant_id}: ADJUST of {tenant.adjust_micros} micros{again}"
