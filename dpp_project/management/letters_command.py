"""Base class of the commands over dead letters: list the newest, show one, send one again."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final, Generic, TypeVar

from django.core.management.base import CommandParser
from django.db.models import Model, QuerySet

from dpp_project import actors
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand, within_limit
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid

LISTED: Final = 50
Letter = TypeVar("Letter", bound=Model)


class LettersCommand(OpsCommand, Generic[Letter]):
    """A subclass names its letters, sends one again, and writes one as a line and as a document."""

    changes = True
    model: type[Letter]
    may_redrive: ClassVar[Callable[[Any], Refusal | None]]
    redrive: ClassVar[Callable[..., Refusal | None]]

    @abstractmethod
    def declare_filters(self, parser: CommandParser) -> None:
        """What narrows a list; each option's value arrives in `listed`."""

    @abstractmethod
    def listed(self, letters: QuerySet[Letter], **options: Any) -> QuerySet[Letter]:
        """Those that the options of a list ask for."""

    @abstractmethod
    def line(self, letter: Letter) -> str: ...

    @abstractmethod
    def document(self, letter: Letter) -> dict[str, Any]:
        """Never what strangers sent, which may be anything: the console shows it, escaped."""

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("do", choices=("list", "show", "redrive"))
        parser.add_argument("letter", nargs="?", type=int, help="the letter's number, for show and redrive")
        self.declare_filters(parser)
        parser.add_argument("--limit", type=int, default=LISTED, help=f"list: at most so many (default {LISTED})")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        if options["do"] == "list":
            return self._list(**options)
        letter = self._found(options["letter"])
        if options["do"] == "show":
            document = self.document(letter)
            return CommandAnswer(document, [f"{name}: {value}" for name, value in document.items()])
        refusal = type(self).may_redrive(letter) if dry_run else type(self).redrive(letter, actor=actors.COMMAND)
        if refusal is not None:
            raise CommandRefused(refusal)
        letter.refresh_from_db()
        return CommandAnswer(self.document(letter), [f"letter {letter.pk} {'can be' if dry_run else 'was'} sent again"])

    def _list(self, *, limit: int, **options: Any) -> CommandAnswer:
        found = list(self.listed(self._letters(), **options)[: within_limit(limit)])
        lines = [self.line(letter) for letter in found]
        return CommandAnswer(
            {"letters": [self.document(letter) for letter in found]}, lines or ["There are no dead letters."]
        )

    def _found(self, number: int | None) -> Letter:
        if number is None:
            raise CommandRefused(invalid("letter", f"say which; `manage.py {self._name()} list` shows them"))
        letter = self._letters().filter(pk=number).first()
        if letter is None:
            raise CommandRefused(Refusal(ReasonCode.NOT_FOUND, f"there is no letter {number}", "letter"))
        return letter

    def _letters(self) -> QuerySet[Letter]:
        return self.model._default_manager.all()  # noqa: SLF001  a model's own name for it
