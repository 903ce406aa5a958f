"""What one pass of any loop counts, and how one bad row is kept from stopping the rest."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from dpp_project.jobs import deadline, skipped_rows
from dpp_project.jobs.registry import EVERYTHING, PassReport
from reaper import metrics
from runs.bucket import outages
from runs.bucket.outages import StorageAway
from runs.finish.finalization import Committed, Unfinished

log = structlog.get_logger("dpp.reaper")

REMEMBERED_MAX: Final = 100_000

_failed: dict[str, dict[Hashable, None]] = {}
"""Rows that failed in an earlier pass of this process, by loop, the longest untried first: they come after all others.

Only their order depends on it. A process that starts anew meets them first once more, and then knows them.
"""


class Tally:
    """The report of a pass in the making, and whether the pass goes on."""

    def __init__(self, loop: str, *, limit: int = EVERYTHING) -> None:
        self.loop = loop
        self.seen = 0
        self.changed = 0
        self.errors = 0
        self.noted: Counter[str] = Counter()
        self._limit = limit
        self._skipped: dict[str, str] = {}
        self.s3_is_away = False
        """From then on no row that needs it is taken; the others go on."""
        self._waits_for: str | None = None
        self._ended_by: str | None = None

    def goes_on(self) -> bool:
        """Whether another row may be taken. The first one always may: a pass that is late from the start moves too."""
        if self._waits_for is not None or self.seen >= self._limit:
            return False
        return not (self.seen and self.is_late())

    def is_late(self) -> bool:
        if deadline.is_over():
            self._ended_by = "deadline"
            return True
        return False

    def room(self, most: int) -> int:
        """How many rows of `most` the limit leaves."""
        return min(most, self._limit - self.seen)

    def wait_for(self, service: str) -> None:
        """Nothing more can be done in this pass: what is left keeps until the service is back."""
        self._waits_for = service

    @property
    def waits(self) -> bool:
        return self._waits_for is not None

    @contextmanager
    def each(self, subject: Hashable, *, seen: int = 1) -> Iterator[None]:
        """One row: what goes wrong inside is this row's alone, and a later pass meets it again, after the others.

        A row may cost the connection: another session holds its lock, and Postgres is given up. The pass goes on with
        a new one, and ends where there is none. S3 that is away leaves the row as it is, and is not asked again.
        """
        self.seen += seen
        try:
            yield
        except StorageAway as error:
            log.warning("S3 is away, the row waits", loop=self.loop, subject=str(subject), exc_info=error)
            self.noted["waiting"] += 1
            self.s3_is_away = True
            self._remember(subject)  # it may be this one object that S3 never answers for
        except Exception as error:  # this row's alone, as said above
            log.warning("row skipped", loop=self.loop, subject=str(subject), exc_info=error)
            self.skip(subject, why=outages.s3_error_word(error))
            skipped_rows.keep_a_connection(error)
        else:
            _failed.get(self.loop, {}).pop(subject, None)

    def skip(self, subject: Hashable, *, why: str) -> None:
        """Count the row and show it to the operator; it comes last from now on."""
        self.errors += 1
        metrics.SKIPPED.labels(loop=self.loop).inc()
        if len(self._skipped) < skipped_rows.SHOWN_MAX:
            self._skipped[str(subject)] = why
        self._remember(subject)

    def failed_before(self) -> list[Hashable]:
        """The longest untried first."""
        return list(_failed.get(self.loop, ()))

    def _remember(self, subject: Hashable) -> None:
        failed = _failed.setdefault(self.loop, {})
        if len(failed) >= REMEMBERED_MAX:
            failed.clear()
        failed.pop(subject, None)
        failed[subject] = None

    def lost(self) -> None:
        """Another actor moved the row since it was read; that is how rivals share the work."""
        self.noted["lost"] += 1
        metrics.LOST.labels(loop=self.loop).inc()

    def count(self, finished: Committed | Unfinished) -> None:
        if isinstance(finished, Committed):
            self.changed += 1
        elif finished is Unfinished.LOST:
            self.lost()
        else:
            self.noted["waiting"] += 1

    def report(self) -> PassReport:
        detail: dict[str, object] = dict(+self.noted)
        if self._skipped:
            detail["skipped"] = self._skipped
        if waits_for := self._waits_for or ("S3" if self.s3_is_away else None):
            detail["waits_for"] = waits_for
        if self._ended_by is not None:
            detail["ended_by"] = self._ended_by
        return PassReport(seen=self.seen, changed=self.changed, errors=self.errors, detail=detail)
