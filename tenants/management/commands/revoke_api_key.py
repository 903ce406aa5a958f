"""manage.py revoke_api_key dpp_1a2B3c4D"""

from typing import Any

from django.core.management.base import CommandParser

from dpp_project.management.base import Answer, OpsCommand, changes_undone_if
from tenants import services
from tenants.management.base import ACTOR, key_document, unless_refused


class Command(OpsCommand):
    help = "End a key for good, everywhere within 5 seconds. Its successor, if it was rotated, stays valid."
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("key", help="the key's prefix (dpp_1a2B3c4D), its id, or the whole key")

    def run(self, *, dry_run: bool, **options: Any) -> Answer:
        with changes_undone_if(dry_run):
            found = unless_refused(services.find_key(options["key"]))
            key = unless_refused(services.revoke_key(key_id=found.key_id, actor=ACTOR))
        return Answer(key_document(key), [f"{key} {key.status}"])
