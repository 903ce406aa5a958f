"""manage.py dlq list, dlq show 7, dlq redrive 7"""

import uuid
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import QuerySet

from dpp_project.management.letters_command import LettersCommand
from reaper import redrive
from reaper.models import DeadLetter


class Command(LettersCommand[DeadLetter]):
    help = (
        "Dead letters: list the newest, show one, or send one again (redrive). The queue itself is emptied every "
        "minute by the job dead_letters (`manage.py run_job dead_letters`)."
    )
    model = DeadLetter
    may_redrive = redrive.may_redrive
    redrive = redrive.redrive

    def declare_filters(self, parser: CommandParser) -> None:
        parser.add_argument("--run", type=uuid.UUID, help="list: only letters of this run")

    def listed(self, letters: QuerySet[DeadLetter], **options: Any) -> QuerySet[DeadLetter]:
        return letters if options["run"] is None else letters.filter(run_id=options["run"])

    def line(self, letter: DeadLetter) -> str:
        return f"{letter.pk}  {letter.stored_at:%Y-%m-%d %H:%M:%S}  {letter.outcome:8}  {letter.run_id or ''}"

    def document(self, letter: DeadLetter) -> dict[str, Any]:
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
