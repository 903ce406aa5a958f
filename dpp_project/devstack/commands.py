# ruff: noqa: T201  commands print
"""What a person types: `python -m dpp_project.devstack COMMAND`. The Makefile's targets are these."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dpp_project.devstack.folder import DEFAULT, Folder
from dpp_project.devstack.programs import DevstackError
from dpp_project.devstack.sessions import with_services


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except DevstackError as error:
        print(f"devstack: {error}", file=sys.stderr)
        return 1


def _with_services(options: argparse.Namespace) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise DevstackError("with-services needs a command after --")
    return with_services(_folder(options), command)


def _folder(options: argparse.Namespace) -> Folder:
    return Folder(Path(options.state).resolve())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dpp_project.devstack", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("with-services", help="run a command with Postgres, Valkey, SQS and S3 of its own")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    run.set_defaults(run=_with_services)
    for each in commands.choices.values():
        each.add_argument("--state", default=str(DEFAULT), metavar="DIR", help="folder of the devstack (%(default)s)")
    return parser
