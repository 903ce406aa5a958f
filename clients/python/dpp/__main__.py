"""`python -m dpp` is the command `dpp`."""

from dpp.command.main import run

run()
