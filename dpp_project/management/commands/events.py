"""manage.py events list, events show 7, events redrive 7"""

import uuid
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import QuerySet

from dpp_project.management.letters_command import LettersCommand
from dpp_project.outbox import redrive
from dpp_project.outbox.models import EventDeadLetter


class Command(LettersCommand[EventDeadLetter]):
    help = (
        "Dead letters of events: list the newest, show one, or send one again (redrive). The queue behind the events' "
        "is emptied every minute by the job events_dead_letters."
    )
    model = EventDeadLetter
    may_redrive = redrive.may_redrive
    redrive = redrive.redrive

    def declare_filters(self, parser: CommandParser) -> None:
        parser.add_argument("--event", type=uuid.UUID, help="list: only letters of the event with this outbox id")
        parser.add_argument("--reason", choices=EventDeadLetter.Reason.values, help="list: only letters of this reason")

    def listed(self, letters: QuerySet[EventDeadLetter], **options: Any) -> QuerySet[EventDeadLetter]:
        if options["event"] is not None:
            letters = letters.filter(outbox_id=options["event"])
        return letters if options["reason"] is None else letters.filter(reason=options["reason"])

    def line(self, letter: EventDeadLetter) -> str:
        return f"{letter.pk}  {letter.stored_at:%Y-%m-%d %H:%M:%S}  {letter.reason:18}  {letter.outbox_id or ''}"

    def document(self, letter: EventDeadLetter) -> dict[str, Any]:
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
