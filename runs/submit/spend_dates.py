"""The latest date of each tenant that a hold of this process has met; its accepts date no run before it.

A clock of the database that was set back, or a zone moved west, would date runs into windows that have ended: the hold
refuses such a date. Remembering it spares the next submits that refusal. What is forgotten costs one statement again.
"""

import threading
from collections import OrderedDict
from datetime import date
from typing import Final

REMEMBERED_MAX: Final = 10_000


class LatestDates:
    def __init__(self, *, limit: int = REMEMBERED_MAX) -> None:
        self._limit = limit
        self._dates: OrderedDict[str, date] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, tenant_id: str) -> date | None:
        return self._dates.get(tenant_id)

    def note(self, tenant_id: str, day: date) -> None:
        with self._lock:
            self._dates[tenant_id] = max(day, self._dates.get(tenant_id, day))
            self._dates.move_to_end(tenant_id)
            while len(self._dates) > self._limit:
                self._dates.popitem(last=False)


latest: Final = LatestDates()
