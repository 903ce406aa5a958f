"""`api_keys.last_used_at`, without a write per request.

Each process collects in memory which keys it saw and writes them in one statement: a second after the first, and at
most once a minute. A process that ends loses what it has not written yet; people read the column to decide whether a
key is still in use, and a minute makes no difference to that.
"""

import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog
from django.db import connection

log = structlog.get_logger("dpp.tenants")

FLUSH_EVERY_SECONDS: Final = 60.0
FIRST_FLUSH_AFTER_SECONDS: Final = 1.0

# SKIP LOCKED: two processes writing the same keys would otherwise wait for each other, in opposite order; whichever
# comes second has nothing to add but a few seconds.
WRITE = """
UPDATE api_keys SET last_used_at = seen.at
  FROM unnest(%s::uuid[], %s::timestamptz[]) AS seen (key_id, at),
       (SELECT key_id FROM api_keys WHERE key_id = ANY(%s::uuid[]) FOR UPDATE SKIP LOCKED) AS free
 WHERE api_keys.key_id = seen.key_id AND free.key_id = seen.key_id
   AND (api_keys.last_used_at IS NULL OR api_keys.last_used_at < seen.at)
"""


def in_background(seconds: float, flush: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, flush)
    timer.daemon = True
    timer.start()


class LastUsed:
    """The times collected by one process. At most one flush runs or is scheduled; none while no key is used."""

    def __init__(
        self,
        *,
        run_later: Callable[[float, Callable[[], None]], None] = in_background,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run_later = run_later
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seen: dict[UUID, datetime] = {}
        self._armed = False
        self._flushed_at = float("-inf")

    def note(self, key_id: UUID, at: datetime) -> None:
        with self._lock:
            self._seen[key_id] = at
            if self._armed:
                return
            self._armed = True
            due = self._flushed_at + FLUSH_EVERY_SECONDS - self._monotonic()
        self._run_later(max(FIRST_FLUSH_AFTER_SECONDS, due), self._flush_in_thread)

    def _flush_in_thread(self) -> None:
        try:
            self.flush()
        finally:
            connection.close()  # back to the pool: this thread ends here

    def flush(self) -> None:
        """Write the collected times and clear them. If the database is away, they are lost and a warning is logged."""
        with self._lock:
            seen, self._seen, self._armed = self._seen, {}, False
            self._flushed_at = self._monotonic()
        if not seen:
            return
        try:
            _write_last_used(seen)
        except Exception as error:  # no request waits for this write; the next minute tries again
            log.warning("last use of keys not written", keys=len(seen), exc_info=error)


def _write_last_used(seen: dict[UUID, datetime]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(WRITE, [list(seen), list(seen.values()), list(seen)])
