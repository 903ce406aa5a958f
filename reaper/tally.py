"""What one pass of any loop counts, and how one bad row is kept from stopping the rest."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import redis
import structlog
from django.db import Error, connection

from budget.redis import scripts
from budget.redis.gate import GateClosed
from dpp_project.jobs.registry import Report
from reaper import metrics
from runs.finish.finalization import Committed, Unfinished

log = structlog.get_logger("dpp.reaper")


class Tally:
    """The report of a pass in the making."""

    def __init__(self, loop: str) -> None:
        self.loop = loop
        self.seen = 0
        self.changed = 0
        self.errors = 0
        self.noted: Counter[str] = Counter()

    @contextmanager
    def each(self, subject: object, *, seen: int = 1) -> Iterator[None]:
        """One row: whatever goes wrong inside is this row's alone, and the next pass meets it again.

        A connection that is gone is not the row's fault: it ends the pass.
        """
        self.seen += seen
        try:
            yield
        except Exception as error:
            if isinstance(error, Error) and not connection.is_usable():
                raise
            log.warning("row left to the next pass", loop=self.loop, subject=str(subject), exc_info=error)
            self.errors += 1

    def lost(self) -> None:
        """Someone else moved the row since it was read; that is how rivals share the work."""
        self.noted["lost"] += 1
        metrics.LOST.labels(loop=self.loop).inc()

    def goes_on_after(self, finished: Committed | Unfinished) -> bool:
        """Count it. When money has closed meanwhile, the rest of the pass is left to the next one, unclaimed."""
        if isinstance(finished, Committed):
            self.changed += 1
        elif finished is Unfinished.LOST:
            self.lost()
        else:
            self.noted["waiting"] += 1
            return not money_is_closed()
        return True

    def report(self, **detail: object) -> Report:
        return Report(seen=self.seen, changed=self.changed, errors=self.errors, detail=dict(self.noted) | detail)


def money_is_closed() -> bool:
    """Nobody can be charged or refunded now. A loop then claims nothing: its rows keep until the money is back.

    A claim made now would wait five minutes for the reconciler; a row left alone is met by the next pass.
    """
    try:
        scripts.shared().gate.renewed()
    except (GateClosed, redis.RedisError):
        return True
    return False
