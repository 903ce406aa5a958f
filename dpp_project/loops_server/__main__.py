"""Starts Django and runs the loops of one process until a signal comes: `python -m dpp_project.loops_server PART`."""

import os
import sys
from typing import Final

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")

import django

from dpp_project.processes.loading import without_collections

MODULES: Final = {"events": "events", "workspaces": "loops"}
"""In which module of an app the loops of a process stand."""


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in MODULES:
        raise SystemExit(f"usage: python -m dpp_project.loops_server {'|'.join(MODULES)}")
    part = sys.argv[1]
    with without_collections():
        django.setup()
        from dpp_project import discovery
        from dpp_project.loops_server.host import LoopsHost
        from dpp_project.observe import spans

        spans.start_span_export(part)
        loops = [
            loop for module in discovery.discovered_modules(MODULES[part]) for loop in getattr(module, "LOOPS", ())
        ]
    return LoopsHost(loops, part=part).run()


if __name__ == "__main__":
    sys.exit(main())
