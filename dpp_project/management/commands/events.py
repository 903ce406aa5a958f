"""manage.py events list, events show 7, events redrive 7"""

import uuid
from typing import Any

from django.core.management.base import CommandParser

from dpp_project import actors
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand, within_limit
from dpp_project.outbox import redrive
from dpp_project.outbox.models import EventDeadLetter
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid

LISTED = 50


class Command(OpsCommand):
    help = (
        "Dead letters of events: list the newest, show one, or send one again (redrive). The queue behind the events' "
        "is emptied every minute by the job events_dead_letters."
    )
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("do", choices=("list", "show", "redrive"))
        parser.add_argument("letter", nargs="?", type=int, help="the letter's number, for show and redrive")
        parser.add_argument("--event", type=uuid.UUID, help="list: only letters of the event with this outbox id")
        parser.add_argument("--reason", choices=EventDeadLetter.Reason.values, help="list: only letters of this reason")
        parser.add_argument("--limit", type=int, default=LISTED, help=f"list: at most so many (default {LISTED})")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        if options["do"] == "list":
            return _list(outbox_id=options["event"], reason=options["reason"], limit=options["limit"])
        letter = _found(options["letter"])
        if options["do"] == "show":
            return CommandAnswer(_document(letter), [f"{name}: {value}" for name, value in _document(letter).items()])
        refusal = redrive.may_redrive(letter) if dry_run else redrive.redrive(letter, actor=actors.COMMAND)
        if refusal is not None:
            raise CommandRefused(refusal)
        letter.refresh_from_db()
        return CommandAnswer(_document(letter), [f"letter {letter.pk} {'can be' if dry_run else 'was'} sent again"])


def _list(*, outbox_id: uuid.UUID | None, reason: str | None, limit: int) -> CommandAnswer:
    letters = EventDeadLetter.objects.all()
    if outbox_id is not None:
        letters = letters.filter(outbox_id=outbox_id)
    if reason is not None:
        letters = letters.filter(reason=reason)
    found = list(letters[: within_limit(limit)])
    lines = [
        f"{letter.pk}  {letter.stored_at:%Y-%m-%d %H:%M:%S}  {letter.reason:18}  {letter.outbox_id or ''}"
        for letter in found
    ]
    return CommandAnswer({"letters": [_document(letter) for letter in found]}, lines or ["There are no dead letters."])


def _found(number: int | None) -> EventDeadLetter:
    if number is None:
        raise CommandRefused(invalid("letter", "say which; `manage.py events list` shows them"))
    letter = EventDeadLetter.objects.filter(pk=number).first()
    if letter is None:
        raise CommandRefused(Refusal(ReasonCode.NOT_FOUND, f"there is no letter {number}", "letter"))
    return letter


def _document(letter: EventDeadLetter) -> dict[str, Any]:
    """Never the body, which may be anything: the console shows it, escaped."""
    return {
        "letter": letter.pk,
        "reason": letter.reason,
        "detail": letter.detail,
        "outbox_id": letter.outbox_id and str(letter.outbox_id),
        "event_type": letter.event_type,
        "tenant_id": letter.tenant_id,
        "letter_key": letter.letter_key,
        "attributes": letter.attributes,
        "size_bytes": len(letter.body),
        "receives": letter.receives,
        "sent_at": letter.sent_at and letter.sent_at.isoformat(),
        "stored_at": letter.stored_at.isoformat(),
        "redriven_at": letter.redriven_at and letter.redriven_at.isoformat(),
        "redriven_by": letter.redriven_by,
    }
