"""manage.py migrate: Django's own, which waits for a lock no longer than anyone behind it may.

A change of a table takes a lock that every statement on the table waits behind. Where a long transaction keeps it
waiting, it gives up instead, nothing is changed, and it is run again; a migration itself may take as long as it takes.
"""

from typing import Any

from django.core.management.commands import migrate
from django.db import connections

from dpp_project.stores.postgres import MIGRATION_LOCK_SECONDS


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        with connections[options["database"]].cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{MIGRATION_LOCK_SECONDS:.0f}s'")
            try:
                super().handle(*args, **options)
            finally:
                cursor.execute("RESET lock_timeout")
