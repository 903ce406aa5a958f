"""From where something is asked for: the console, the API, a command or a ticket, and the address or machine behind it.

Set where a request, a command or a ticket comes in, and read by whatever writes down who did something.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

CONSOLE: Final = "console"
API: Final = "api"
COMMAND: Final = "command"
TICKET: Final = "ticket"
PLATFORM: Final = "platform"


@dataclass(frozen=True, slots=True)
class Origin:
    """`source` is one of the above; `place` an address, a command with its account, or a ticket with its people."""

    source: str
    place: str = ""


_NOWHERE: Final = Origin(PLATFORM)
_here: ContextVar[Origin] = ContextVar("dpp_origin", default=_NOWHERE)


def current_origin() -> Origin:
    return _here.get()


@contextmanager
def use_origin(source: str, place: str) -> Iterator[None]:
    """What is done inside the block is done from there."""
    token = _here.set(Origin(source, place))
    try:
        yield
    finally:
        _here.reset(token)
