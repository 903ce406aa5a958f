"""manage.py create_api_key t_acme --scopes runs:read,runs:write"""

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from dpp_project import actors, clock
from dpp_project.management.base import CommandAnswer, OpsCommand, changes_undone_if, unless_refused
from dpp_project.refusals import invalid
from tenants import services
from tenants.management.base import SHOWN_ONCE, issued_document, issued_lines
from tenants.scopes import OPERATOR_SCOPES, OPERATOR_TENANT_ID, TENANT_SCOPES, allowed_for


class Command(OpsCommand):
    help = "Create an API key and print it, this once, as the only line on stdout."
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("tenant_id", help="whose key")
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument(
            "--scopes",
            help=f"comma-separated, of {', '.join(sorted(TENANT_SCOPES))}; for {OPERATOR_TENANT_ID}: "
            + ", ".join(sorted(OPERATOR_SCOPES)),
        )
        which.add_argument("--all-scopes", action="store_true", help="every scope this tenant's keys may carry")
        parser.add_argument("--label", help="what the key is for, for people")
        parser.add_argument("--expires-in-days", type=int, help="from 1 to 3650; without it the key does not expire")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        tenant_id = options["tenant_id"]
        days = options["expires_in_days"]
        if options["all_scopes"]:
            scopes = [scope.value for scope in allowed_for(tenant_id)]
        else:
            scopes = [scope.strip() for scope in options["scopes"].split(",") if scope.strip()]
        if days is not None and not 1 <= days <= 3_650:
            unless_refused(invalid("expires_in_days", "must be a whole number from 1 to 3650"))
        with changes_undone_if(dry_run):
            issued = unless_refused(
                services.issue_key(
                    tenant_id=tenant_id,
                    scopes=scopes,
                    label=options["label"],
                    expires_at=None if days is None else clock.now() + timedelta(days=days),
                    actor=actors.COMMAND,
                )
            )
        return CommandAnswer(
            issued_document(issued, dry_run=dry_run),
            issued_lines(issued, dry_run=dry_run),
            [f"Key for {tenant_id} with {', '.join(issued.key.scopes)}."] + ([] if dry_run else [SHOWN_ONCE]),
        )
