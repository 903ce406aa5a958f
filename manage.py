#!/usr/bin/env python
"""Django's command line for DPP."""

import os
import sys

from dpp_project.processes.loading import without_collections

if __name__ == "__main__":
    if sys.argv[1:2] == ["mcp"]:  # a client of the API: its user has no database and no settings
        from runs.mcp import bridge

        raise SystemExit(bridge.main(sys.argv[2:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")
    with without_collections():
        import django
        from django.core.management import execute_from_command_line

        django.setup()
    execute_from_command_line(sys.argv)
