"""manage.py topup t_acme 25.0000 --reference "invoice 7" """

from typing import Any

from django.core.management.base import CommandParser

from budget import entries
from budget.management.base import entry_answer, micros_of
from dpp_project import actors
from dpp_project.management.base import CommandAnswer, OpsCommand


class Command(OpsCommand):
    help = "Top up a tenant. The same reference is entered once, however often it is asked for."
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("tenant_id", help="whose money")
        parser.add_argument("amount", help="US dollars with exactly four decimals, such as 25.0000")
        parser.add_argument("--reference", required=True, help="names this top-up, once per tenant")
        parser.add_argument("--reason", default="", help="shown to the tenant")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        answer = entries.top_up(
            tenant_id=options["tenant_id"],
            amount_micros=micros_of(options["amount"]),
            reference=options["reference"],
            reason=options["reason"],
            actor=actors.COMMAND,
            dry_run=dry_run,
        )
        return entry_answer(answer, dry_run=dry_run)
