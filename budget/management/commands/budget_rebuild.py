"""manage.py budget_rebuild [--tenant t_acme] [--dry-run]"""

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from budget import repairs
from budget.management.base import behind_is_refused
from budget.rebuild import rebuild
from budget.rebuild.rebuild import Busy
from dpp_project import actors
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants.models import Tenant

EXIT_BUSY = 75  # EX_TEMPFAIL


class Command(OpsCommand):
    help = "Make the money in Redis again from Postgres. Meanwhile nothing is held or charged (503)."
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("--tenant", help="only this tenant; the others go on")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        tenant_id = options["tenant"]
        if tenant_id is not None and not Tenant.objects.filter(tenant_id=tenant_id).exists():
            raise CommandRefused(Refusal(ReasonCode.NOT_FOUND, f"there is no tenant {tenant_id}", "--tenant"))
        if dry_run:
            made: rebuild.Rebuilt | Busy = rebuild.preview_rebuild(tenant_id)
        else:
            with behind_is_refused():
                answer = repairs.rebuild_by_hand(tenant_id, actor=actors.COMMAND)
            if isinstance(answer, Refusal):
                raise CommandRefused(answer)
            made = answer
        if isinstance(made, Busy):
            why = "another rebuild is at work, or all money waits for one: try again, or without --tenant"
            return CommandAnswer({"outcome": "busy"}, [why], exit_code=EXIT_BUSY)
        lines = [f"{made.tenants} tenants, {made.holds} holds, balances of {made.balance_micros} micros in all"]
        if made.left_closed:
            lines.append(f"still closed, and tried again every few seconds: {', '.join(made.left_closed)}")
        exit_code = EXIT_BUSY if made.left_closed else 0
        return CommandAnswer({"outcome": "rebuilt", **asdict(made)}, lines, exit_code=exit_code)
