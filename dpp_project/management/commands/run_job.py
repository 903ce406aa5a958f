"""manage.py run_job data_cleanup --dry-run"""

from typing import Any

from django.core.management.base import CommandParser

from dpp_project.jobs import registry
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand
from dpp_project.management.job_command import run_job
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal


class Command(OpsCommand):
    help = "Run one pass of a job now. `manage.py jobs` lists them. Exit code 75: it is already running."
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the job's name")
        parser.add_argument("--limit", type=int, help="at most so many rows (default: all that is due)")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        try:
            return run_job(options["name"], limit=options["limit"], dry_run=dry_run)
        except registry.UnknownJob as error:
            raise CommandRefused(Refusal(ReasonCode.NOT_FOUND, str(error), "name")) from None
