"""Renews the lease of the event that a consumer is handling, and keeps its message from the others.

A handler that needs more than ten minutes hangs: it is renewed no more, another consumer takes the event, and what the
first one did is rolled back at its end. Before that, Postgres ends a session that asks nothing for 30 s inside its
transaction.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog
from django.db import connections

from dpp_project.aws import receipt_handles
from dpp_project.outbox import ledger
from dpp_project.stores.postgres import DATABASE_AWAY

log = structlog.get_logger("dpp.events")

RENEW_SECONDS: Final = 20.0
HANDLING_SECONDS_MAX: Final = 600


@dataclass(frozen=True, slots=True)
class _Kept:
    outbox_id: UUID
    token: UUID
    receipt: str
    until: float


class EventLeaseKeeper:
    """One consumer's: of one event at a time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._kept: _Kept | None = None

    @contextmanager
    def working(self, stop: threading.Event) -> Iterator[None]:
        """Around a consumer's loop: a thread that renews, and asks the loop's event while its handler cannot.

        Who watches a loop by its questions sees that it gets on.
        """
        over = threading.Event()
        thread = threading.Thread(target=self._renew_on, args=(over, stop), name="events-leases", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @contextmanager
    def keeping(self, outbox_id: UUID, *, token: UUID, receipt: str) -> Iterator[None]:
        self._kept = _Kept(outbox_id, token, receipt, time.monotonic() + HANDLING_SECONDS_MAX)
        try:
            yield
        finally:
            self._kept = None

    def renew(self) -> bool:
        """Whether there was an event, and its lease holds for another 60 s."""
        kept = self._kept
        if kept is None or time.monotonic() >= kept.until or not ledger.renew(kept.outbox_id, token=kept.token):
            return False
        receipt_handles.keep_receipts(self._url, [kept.receipt], seconds=ledger.LEASE_SECONDS)
        return True

    def _renew_on(self, over: threading.Event, stop: threading.Event) -> None:
        while not over.wait(RENEW_SECONDS):
            try:
                if self.renew():
                    stop.is_set()
            except DATABASE_AWAY as error:
                log.warning("lease not renewed", exc_info=error)
            except Exception:  # the thread must go on: without it each long handler loses its lease
                log.exception("lease not renewed")
            finally:
                connections.close_all()
