"""Which slot of a worker a message may have: what one tenant floods, another's few runs do not wait for.

A sender puts what may be long and many into the queue of runs, and the few runs of a tenant that has little open into
the express queue. A worker's general slots take from both. Its express slots take from the express queue alone, and
only for a tenant that has nothing at work at this worker: so one tenant's runs never fill them all, and the next
tenant's first run finds a place beside a flood of long ones.

Nothing here decides anything about a run: a message without a place is kept, given back or sent again.
"""

import enum
from collections import Counter
from typing import Final

RUNS: Final = "runs"
EXPRESS: Final = "runs-express"
"""The queues, as Celery knows them."""

SLOTS_PER_EXPRESS: Final = 8
HELD_MOST: Final = 10
"""Express messages that wait inside a worker for a place: those of tenants that have something at work there."""


def express_slots(slots: int) -> int:
    """Beside the general ones."""
    return max(1, slots // SLOTS_PER_EXPRESS)


class Slot(enum.Enum):
    GENERAL = "general"
    EXPRESS = "express"


class Lanes:
    """The slots of one worker, and whose messages have them."""

    def __init__(self, *, general: int, express: int) -> None:
        self._free = {Slot.GENERAL: general, Slot.EXPRESS: express}
        self._places: dict[str, tuple[Slot, str]] = {}
        self._at_work: Counter[str] = Counter()

    def room(self, queue: str, *, asked: int, held: int = 0) -> int:
        """How many more messages to ask this queue for. `asked` are on their way from it, `held` wait inside.

        While a slot is free one more is always asked for: those that are held may be all of a few tenants, and the next
        of another.
        """
        general, express = self._free[Slot.GENERAL], self._free[Slot.EXPRESS]
        if queue != EXPRESS:
            return general - asked
        return min(general + express, max(1, HELD_MOST - held)) - asked

    def take(self, queue: str, *, tag: str, tenant_id: str, promised: int = 0) -> bool:
        """A place for a message, or none now. `promised` general slots were asked for, for the queue of runs."""
        slot = self._place(queue, tenant_id, promised)
        if slot is None:
            return False
        self._free[slot] -= 1
        self._places[tag] = (slot, tenant_id)
        self._at_work[tenant_id] += 1
        return True

    def _place(self, queue: str, tenant_id: str, promised: int) -> Slot | None:
        """A promised slot is the last choice: what it was promised to is given back to its queue then."""
        general = self._free[Slot.GENERAL]
        if queue != EXPRESS:
            return Slot.GENERAL if general > 0 else None
        if general > promised:
            return Slot.GENERAL
        if self._free[Slot.EXPRESS] > 0 and not self._at_work[tenant_id]:
            return Slot.EXPRESS
        return Slot.GENERAL if general > 0 else None

    def leave(self, tag: str) -> None:
        """The message is done with; one that had no place is none of ours."""
        if (place := self._places.pop(tag, None)) is None:
            return
        slot, tenant_id = place
        self._free[slot] += 1
        self._at_work[tenant_id] -= 1
        if not self._at_work[tenant_id]:
            del self._at_work[tenant_id]
