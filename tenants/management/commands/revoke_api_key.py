"""manage.py revoke_api_key dpp_1a2B3c4D"""

from typing import Any

from django.core.management.base import CommandParser

from dpp_project import actors
from dpp_project.management.base import CommandAnswer, OpsCommand, changes_undone_if, unless_refused
from tenants import services
from tenants.management.base import key_document


class Command(OpsCommand):
    help = "End a key for good, everywhere within 5 seconds. Its successor, if it was rotated, stays valid."
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("key", help="the key's prefix (dpp_1a2B3c4D), its id, or the whole key")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        with changes_undone_if(dry_run):
            found = unless_refused(services.find_key(options["key"]))
            key = unless_refused(services.revoke_key(key_id=found.key_id, actor=actors.COMMAND))
        return CommandAnswer(key_document(key), [f"{key} {key.status}"])
