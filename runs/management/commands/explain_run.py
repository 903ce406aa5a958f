"""manage.py explain_run RUN_ID"""

import uuid
from typing import Any

from django.core.management.base import CommandParser

from dpp_project import clock
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from runs.models import Run
from runs.operators import explain_run


class Command(OpsCommand):
    help = "Say in words where a run stands, what it waits for, and who acts next and when."

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("run_id", help="the run's id, as POST /v1/runs answered it")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        del dry_run
        run = _run_to_explain(options["run_id"])
        now = clock.now()
        told = explain_run.explain(run, now=now)
        return CommandAnswer(
            explain_run.explanation_document(run, told),
            lines=explain_run.explanation_lines(run, told, now=now),
            remarks=[f"overdue: {told.overdue}"] if told.overdue else [],
        )


def _run_to_explain(text: str) -> Run:
    try:
        run = Run.objects.filter(run_id=uuid.UUID(text)).first()
    except ValueError:
        raise CommandRefused(invalid("run_id", f"{text} is not a run id")) from None
    if run is None:
        raise CommandRefused(Refusal(ReasonCode.NOT_FOUND, f"there is no run {text}", "run_id"))
    return run
