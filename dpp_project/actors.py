"""Who did something, as rows and logs name it: one name for one person, whichever way she came.

Older rows of one person say `admin:ada`; `command:ada` is what a command's --by says without proof. `person_of` reads
all of them as one person.
"""

import unicodedata
from typing import Final, Protocol

COMMAND: Final = "command"
"""Someone with a shell on the machine, who gave no name."""


class SignedIn(Protocol):
    """A user of the console, as Django has it."""

    def get_username(self) -> str: ...


def operator_actor(name: str) -> str:
    """A person of ours, by her name in the console, who has signed in."""
    return f"operator:{name.strip()}"


def claimed_actor(name: str) -> str:
    """A person as a command's --by names her, without proof."""
    return f"command:{name.strip()}"


def person_actor(user: SignedIn) -> str:
    """The operator at the console."""
    return operator_actor(user.get_username())


def key_actor(prefix: str) -> str:
    """An operator's API key."""
    return f"key:dpp_{prefix}"


def owner_actor(prefix: str) -> str:
    """The tenant's own API key."""
    return f"owner:dpp_{prefix}"


def person_of(actor: str) -> str:
    """The person behind an actor's name: an approval needs two people, not two ways in."""
    name = actor.partition(":")[2] or actor
    return unicodedata.normalize("NFKC", name).strip().casefold()
