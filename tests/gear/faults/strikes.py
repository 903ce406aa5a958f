"""What may go wrong at one call of a driver or of the archive bucket, numbered as they come."""

import enum
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

from ops.workspaces.drivers.base import DriverUnavailable
from tests.gear.builders.recovery import Died

EFFECTS: Final = frozenset(
    {
        "ensure_volume",
        "start",
        "place_placeholder",
        "remove_container",
        "delete_volume",
        "import_",
        "upload",
        "verify",
    }
)
"""What changes something, or lasts: looks are struck as well where a case says so."""
LOOKS: Final = frozenset({"look_container", "look_volume", "users_of", "list", "free_bytes", "look", "list_archives"})


class Fault(enum.Enum):
    DIES_BEFORE = "dies before"
    DIES_AFTER = "dies after"
    ANSWER_LOST = "answer lost"
    TWICE = "twice"
    LATE = "zombie late"


@dataclass
class Strike:
    """One fault, at the effect number `at`; what comes late is done by `late()`."""

    at: int = -1
    fault: Fault = Fault.DIES_BEFORE
    names: frozenset[str] = EFFECTS
    calls: list[str] = field(default_factory=list)
    before: Callable[[str], None] | None = None
    """Done before each call: a rival, a change of mind."""
    late: Callable[[], object] | None = None
    struck: str | None = None

    def around(self, name: str, perform: Callable[[], Any]) -> Any:
        if name not in self.names:
            return perform()
        number = len(self.calls)
        self.calls.append(name)
        if self.before is not None:
            self.before(name)
        if number != self.at:
            return perform()
        self.struck = name
        match self.fault:
            case Fault.DIES_BEFORE:
                raise Died
            case Fault.DIES_AFTER:
                perform()
                raise Died
            case Fault.ANSWER_LOST:
                perform()
                raise DriverUnavailable("the answer did not come")
            case Fault.TWICE:
                perform()
                return perform()
            case Fault.LATE:
                self.late = perform
                raise Died


class Struck:
    """Stands before a driver or a bucket, and lets a strike at every call."""

    def __init__(self, real: Any, strike: Strike) -> None:
        self._real = real
        self._strike = strike

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found):
            return found

        def struck(*arguments: Any, **named: Any) -> Any:
            if name == "upload":
                return self._uploaded(*arguments, **named)
            return self._strike.around(name, lambda: found(*arguments, **named))

        return struck

    def _uploaded(self, key: str, identity: Any, export: AbstractContextManager[Any], **named: Any) -> Any:
        """An export is read once: the second time finds the object, as the store's own answer to a repetition is."""
        done: list[Any] = []

        def perform() -> Any:
            if done:
                return None if self._real.look(key) is not None else done[0]
            done.append(self._real.upload(key, identity, export, **named))
            return done[0]

        return self._strike.around("upload", perform)
