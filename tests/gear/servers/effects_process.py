"""The outbox's own loops in a real process `events`, with handlers that enter each effect into a table of the tests.

    python -m tests.gear.servers.effects_process

GEAR_HANDLE_SECONDS makes each handler so slow, inside its transaction.
"""

import os
import sys
from typing import Final

import django
from django.db import connection

PROGRAM: Final = ("-m", "tests.gear.servers.effects_process")


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")
    django.setup()
    from dpp_project.loops_server.host import LoopsHost
    from dpp_project.outbox import events, handlers
    from dpp_project.outbox.events import Event, Handler
    from tests.gear.builders.events import FOLLOWED, HAPPENED, enter, enter_and_follow

    seconds = float(os.environ.get("GEAR_HANDLE_SECONDS", "0"))

    def happened(event: Event) -> None:
        enter_and_follow(event)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(%s)", [seconds])

    ours = {
        HAPPENED.event_type: Handler(HAPPENED.event_type, happened),
        FOLLOWED.event_type: Handler(FOLLOWED.event_type, enter),
    }
    handlers.event_handlers = lambda: ours  # type: ignore[assignment]
    return LoopsHost(events.LOOPS).run()


if __name__ == "__main__":
    sys.exit(main())
