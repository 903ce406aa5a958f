"""manage.py emergency_stop on --reason "wrong prices" """

from typing import Any

from django.core.management.base import CommandParser

from dpp_project import actors
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand
from ops.tickets import emergency
from ops.tickets.models import EmergencySwitch
from tenants.services import text_fault


class Command(OpsCommand):
    help = (
        "The stop of the ticket cycle: while it is on, no ticket is worked on. Runs, recovery and money go on; "
        "`manage.py submits stop` stops new runs. `status` says who turned it, when and why."
    )
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("do", choices=("on", "off", "status"))
        parser.add_argument("--reason", default="", help="on and off: why, shown to other operators")
        parser.add_argument("--by", default="", help="on and off: your name")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        if options["do"] == "status":
            return _emergency_stop_answer(emergency.emergency_state())
        for name in ("reason", "by") if options["by"] else ("reason",):
            fault = text_fault(f"--{name}", options[name])
            if fault is not None:
                raise CommandRefused(fault)
        if dry_run:
            return CommandAnswer({"on": options["do"] == "on"}, [f"the emergency stop would be {options['do']}"])
        return _emergency_stop_answer(
            emergency.turn_emergency_stop(
                on=options["do"] == "on",
                actor=actors.claimed_actor(options["by"]) if options["by"] else actors.COMMAND,
                reason=options["reason"],
            )
        )


def _emergency_stop_answer(latest: EmergencySwitch | None) -> CommandAnswer:
    if latest is None:
        return CommandAnswer({"on": False, "actor": None, "reason": None, "at": None}, ["off, and never touched"])
    document = {"on": latest.is_on, "actor": latest.actor, "reason": latest.reason, "at": latest.at.isoformat()}
    return CommandAnswer(document, [f"{latest}, {latest.at:%Y-%m-%d %H:%M:%S}: {latest.reason}"])
