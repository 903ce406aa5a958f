"""Base class of all operators' commands: --json, --dry-run, one form of output, one meaning of exit codes.

Exit codes: 0 done; 1 refused, nothing changed; 2 wrong usage (argparse); 3 a service did not answer. An answer may
carry a code of its own (a check that found differences, a job already running elsewhere).
The answer goes to stdout, everything said about it to stderr, so that a script can take the one and people see both.
"""

import json
import os
import pwd
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import ProgrammingError, transaction
from psycopg import errors
from redis import RedisError

from dpp_project import origins
from dpp_project.observe import logging
from dpp_project.refusals import Refusal, invalid
from dpp_project.stores.postgres import DATABASE_AWAY

Made = TypeVar("Made")

EXIT_REFUSED: Final = 1
EXIT_UNAVAILABLE: Final = 3
LIMIT_MAX: Final = 1_000_000
_NOT_MIGRATED: Final = (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction)
"""What a statement of ours lacks where a migration has not run."""
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""But tab and line end; and what turns the direction of writing."""


@dataclass(frozen=True)
class CommandAnswer:
    """`document` is what --json prints, `lines` what people read, `remarks` what goes beside it to stderr."""

    document: dict[str, Any]
    lines: Sequence[str] = ()
    remarks: Sequence[str] = ()
    exit_code: int = 0


class CommandRefused(Exception):  # noqa: N818  a refusal is an answer
    """The command changed nothing."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


def unless_refused(answer: Made | Refusal) -> Made:
    """What a use case answered; its refusal is the command's."""
    if isinstance(answer, Refusal):
        raise CommandRefused(answer)
    return answer


def within_limit(limit: int, most: int = LIMIT_MAX) -> int:
    """What --limit says, where a list or a pass can be so long."""
    if not 1 <= limit <= most:
        raise CommandRefused(invalid("--limit", f"must be 1 to {most}"))
    return limit


class OpsCommand(BaseCommand):
    """A subclass declares its arguments and answers from `run`. One that changes something sets `changes`."""

    changes: ClassVar[bool] = False
    requires_system_checks: tuple[str, ...] = ()  # a command must work exactly when something is wrong

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON document")
        if self.changes:
            parser.add_argument("--dry-run", action="store_true", help="say what would be done, change nothing")
        self.declare(parser)

    def declare(self, parser: CommandParser) -> None:
        """The command's own arguments."""

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        raise NotImplementedError

    def handle(self, *_args: Any, **options: Any) -> None:
        as_json, dry_run = options.pop("as_json"), options.pop("dry_run", False)
        with nullcontext() if as_json else logging.for_people():
            self._answer(as_json=as_json, dry_run=dry_run, **options)

    def _answer(self, *, as_json: bool, dry_run: bool, **options: Any) -> None:
        try:
            with origins.use_origin(origins.COMMAND, f"{self._name()} by {_account()}"):
                _refuse_what_is_no_text(options)
                answer = self.run(dry_run=dry_run, **options)
        except CommandRefused as refused:
            refusal = refused.refusal
            if as_json:
                self._print_json(
                    {"error": {"reason": refusal.reason.value, "field": refusal.field, "detail": refusal.detail}}
                )
            raise CommandError(f"{refusal.field}: {refusal.detail}", returncode=EXIT_REFUSED) from None
        except ProgrammingError as error:
            if not isinstance(error.__cause__, _NOT_MIGRATED):
                raise
            raise CommandError(
                "the database is not migrated; run `manage.py migrate`", returncode=EXIT_UNAVAILABLE
            ) from error
        except (*DATABASE_AWAY, RedisError) as error:
            raise CommandError(
                f"a service does not answer ({type(error).__name__}); check DATABASE_URL and REDIS_URL",
                returncode=EXIT_UNAVAILABLE,
            ) from error
        if as_json:
            self._print_json(answer.document | ({"dry_run": dry_run} if self.changes else {}))
        else:
            for remark in (*(["dry run: nothing was changed"] if dry_run else []), *answer.remarks):
                self.stderr.write(remark)
            for line in answer.lines:
                self.stdout.write(_without_controls(line))
        if answer.exit_code:
            raise SystemExit(answer.exit_code)

    def _name(self) -> str:
        return type(self).__module__.rpartition(".")[2]

    def _print_json(self, document: dict[str, Any]) -> None:
        self.stdout.write(_without_controls(json.dumps(document, ensure_ascii=False, indent=2, default=str)))


def _without_controls(text: str) -> str:
    """As JSON writes them. What strangers sent may be printed: a terminal must not take it for its own commands."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _refuse_what_is_no_text(options: Mapping[str, Any]) -> None:
    """Bytes that are not UTF-8 reach Python as lone surrogates, which neither Postgres nor a log takes."""
    for name, value in options.items():
        if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
            raise CommandRefused(invalid(name, "is not UTF-8"))


def _account() -> str:
    """The account of the machine, and the one behind sudo; --by is what someone says of herself."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user without an entry
        name = str(os.getuid())
    behind = os.environ.get("SUDO_USER")
    return f"{name}{f' ({behind})' if behind else ''} on {socket.gethostname()}"


@contextmanager
def changes_undone_if(dry_run: bool) -> Iterator[None]:  # noqa: FBT001  reads as a sentence where it is used
    """One transaction around the block, rolled back at its end on a dry run."""
    with transaction.atomic():
        yield
        if dry_run:
            transaction.set_rollback(True)
