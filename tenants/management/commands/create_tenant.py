"""manage.py create_tenant t_acme --name "Acme" """

from typing import Any

from django.core.management.base import CommandParser

from dpp_project import actors
from dpp_project.constants import RATE_LIMIT_PER_MINUTE_DEFAULT
from dpp_project.management.base import CommandAnswer, OpsCommand, changes_undone_if, unless_refused
from tenants import services
from tenants.management.base import tenant_document
from tenants.models import ZONE_DEFAULT


class Command(OpsCommand):
    help = "Create a tenant. It has no key (create_api_key) and no money (topup) yet."
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("tenant_id", help="t_ and 1 to 60 of a-z, 0-9, _; never changes")
        parser.add_argument("--name", help="display name; the id if not given")
        parser.add_argument(
            "--poll-rate", type=int, default=RATE_LIMIT_PER_MINUTE_DEFAULT, help="reads a minute (default %(default)s)"
        )
        parser.add_argument(
            "--submit-rate",
            type=int,
            default=RATE_LIMIT_PER_MINUTE_DEFAULT,
            help="submissions a minute (default %(default)s)",
        )

        parser.add_argument(
            "--zone",
            default=ZONE_DEFAULT,
            help="whose midnight ends its days of spending, such as Europe/Berlin (default %(default)s)",
        )

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        with changes_undone_if(dry_run):
            tenant = unless_refused(
                services.create_tenant(
                    tenant_id=options["tenant_id"],
                    display_name=options["tenant_id"] if options["name"] is None else options["name"],
                    poll_rate_per_minute=options["poll_rate"],
                    submit_rate_per_minute=options["submit_rate"],
                    zone=options["zone"],
                    actor=actors.COMMAND,
                )
            )
        return CommandAnswer(tenant_document(tenant), [f"{tenant.tenant_id} {tenant.status}"])
