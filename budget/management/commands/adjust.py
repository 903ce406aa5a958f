"""manage.py adjust t_acme --amount=-5.0000 --reference "ticket 7" --reason "charged twice by hand" """

from typing import Any

from django.core.management.base import CommandParser

from budget import entries
from budget.management.base import entry_answer, micros_of
from dpp_project import actors
from dpp_project.management.base import CommandAnswer, OpsCommand


class Command(OpsCommand):
    help = "Put a tenant's money right, up or down. The same reference is entered once."
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("tenant_id", help="whose money")
        parser.add_argument("--amount", required=True, help="signed, four decimals: --amount=-5.0000 takes away")
        parser.add_argument("--reference", required=True, help="names this adjustment, once per tenant")
        parser.add_argument("--reason", required=True, help="why; shown to the tenant")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        answer = entries.adjust_balance(
            tenant_id=options["tenant_id"],
            amount_micros=micros_of(options["amount"], signed=True),
            reference=options["reference"],
            reason=options["reason"],
            actor=actors.COMMAND,
            dry_run=dry_run,
        )
        return entry_answer(answer, dry_run=dry_run)
