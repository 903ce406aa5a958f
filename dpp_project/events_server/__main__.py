"""Starts Django and runs the loops of each `events.py` until a signal comes."""

import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")

import django


def main() -> int:
    django.setup()
    from dpp_project.events_server.host import EventsHost
    from dpp_project.outbox import handlers

    return EventsHost(list(handlers.loops().values())).run()


if __name__ == "__main__":
    sys.exit(main())
