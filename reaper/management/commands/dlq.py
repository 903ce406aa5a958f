"""manage.py dlq list, dlq show 7, dlq redrive 7"""

import uuid
from typing import Any

from django.core.management.base import CommandParser

from dpp_project import actors
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand, within_limit
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from reaper import redrive
from reaper.models import DeadLetter

LISTED = 50


class Command(OpsCommand):
    help = (
        "Dead letters: list the newest, show one, or send one again (redrive). The queue itself is emptied every "
        "minute by the job dead_letters (`manage.py run_job dead_letters`)."
    )
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("do", choices=("list", "show", "redrive"))
        parser.add_argument("letter", nargs="?", type=int, help="the letter's number, for show and redrive")
        parser.add_argument("--run", type=uuid.UUID, help="list: only letters of this run")
        parser.add_argument("--limit", type=int, default=LISTED, help=f"list: at most so many (default {LISTED})")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        if options["do"] == "list":
            return _list(run_id=options["run"], limit=options["limit"])
        letter = _found(options["letter"])
        if options["do"] == "show":
            return CommandAnswer(_document(letter), [f"{name}: {value}" for name, value in _document(letter).items()])
        refusal = redrive.may_redrive(letter) if dry_run else redrive.redrive(letter, actor=actors.COMMAND)
        if refusal is not None:
            raise CommandRefused(refusal)
        letter.refresh_from_db()
        return CommandAnswer(_document(letter), [f"letter {letter.pk} {'can be' if dry_run else 'was'} sent again"])


def _list(*, run_id: uuid.UUID | None, limit: int) -> CommandAnswer:
    letters = DeadLetter.objects.all()
    if run_id is not None:
        letters = letters.filter(run_id=run_id)
    found = list(letters[: within_limit(limit)])
    lines = [
        f"{letter.pk}  {letter.stored_at:%Y-%m-%d %H:%M:%S}  {letter.outcome:8}  {letter.run_id or ''}"
        for letter in found
    ]
    return CommandAnswer({"letters": [_document(letter) for letter in found]}, lines or ["There are no dead letters."])


def _found(number: int | None) -> DeadLetter:
    if number is None:
        raise CommandRefused(invalid("letter", "say which; `manage.py dlq list` shows them"))
    letter = DeadLetter.objects.filter(pk=number).first()
    if letter is None:
        raise CommandRefused(Refusal(ReasonCode.NOT_FOUND, f"there is no letter {number}", "letter"))
    return letter


def _document(letter: DeadLetter) -> dict[str, Any]:
    """Never the bytes of poison, which may be anything: the console shows them, escaped."""
    return {
        "letter": letter.pk,
        "message_id": letter.message_id,
        "outcome": letter.outcome,
        "run_id": letter.run_id and str(letter.run_id),
        "tenant_id": letter.tenant_id,
        "trace_id": letter.trace_id,
        "letters": letter.letters,
        "receives": letter.receives,
        "size_bytes": letter.size_bytes,
        "sha256": letter.sha256,
        "sent_at": letter.sent_at and letter.sent_at.isoformat(),
        "stored_at": letter.stored_at.isoformat(),
        "redriven_at": letter.redriven_at and letter.redriven_at.isoformat(),
        "redriven_by": letter.redriven_by,
    }
