"""manage.py rotate_api_key dpp_1a2B3c4D --grace-hours 24"""

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from dpp_project import actors
from dpp_project.management.base import CommandAnswer, OpsCommand, changes_undone_if, unless_refused
from dpp_project.refusals import invalid
from tenants import services
from tenants.management.base import SHOWN_ONCE, issued_document, issued_lines
from tenants.models import ApiKey


class Command(OpsCommand):
    help = "Replace a key: print its successor, this once; the old key ends when the grace period is over."
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("key", help="the key's prefix (dpp_1a2B3c4D) or its id")
        parser.add_argument(
            "--grace-hours",
            type=int,
            default=int(services.GRACE_DEFAULT.total_seconds() // 3_600),
            help="how long the old key stays valid, 0 to 720 (default %(default)s)",
        )

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        hours = options["grace_hours"]
        if not 0 <= hours <= services.GRACE_MAX.total_seconds() // 3_600:
            unless_refused(invalid("grace_hours", "must be from 0 to 720"))
        with changes_undone_if(dry_run):
            old = unless_refused(services.find_key(options["key"]))
            issued = unless_refused(
                services.rotate_key(key_id=old.key_id, grace=timedelta(hours=hours), actor=actors.COMMAND)
            )
            ends_at = ApiKey.objects.values_list("expires_at", flat=True).get(key_id=old.key_id)
        said = "would end" if dry_run else "ends"
        return CommandAnswer(
            issued_document(issued, dry_run=dry_run)
            | {"replaces": f"dpp_{old.prefix}", "replaced_ends_at": ends_at and ends_at.isoformat()},
            issued_lines(issued, dry_run=dry_run),
            [f"{old} {said} at {ends_at and ends_at.isoformat()}."] + ([] if dry_run else [SHOWN_ONCE]),
        )
