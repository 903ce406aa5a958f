"""Starts Django and runs the loops of each `events.py` until a signal comes."""

import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")

import django


def main() -> int:
    django.setup()
    from dpp_project import discovery
    from dpp_project.events_server.host import EventsHost

    loops = [loop for module in discovery.modules("events") for loop in getattr(module, "LOOPS", ())]
    return EventsHost(loops).run()


if __name__ == "__main__":
    sys.exit(main())
