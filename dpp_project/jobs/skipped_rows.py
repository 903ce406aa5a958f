"""One bad row of a pass is that row's alone: skipped, counted, shown to the operator, and no other waits behind it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from django.db import Error, connection

log = structlog.get_logger("dpp.job")

SHOWN_MAX: Final = 20


class SkippedRows:
    """Of one pass of `job`. `errors` and `detail` go into its report."""

    def __init__(self, job: str, *, but: tuple[type[Exception], ...] = ()) -> None:
        """`but`: what fails for every row, as a store that is away does. It ends the pass as it always did."""
        self.errors = 0
        self._job = job
        self._but = but
        self._why: dict[str, str] = {}

    @property
    def detail(self) -> dict[str, object]:
        return {"skipped": self._why} if self._why else {}

    @contextmanager
    def each(self, subject: object) -> Iterator[None]:
        """A later pass meets the row again."""
        try:
            yield
        except self._but:
            raise
        except Exception as error:  # this row's alone, as said above
            log.warning("row skipped", job=self._job, subject=str(subject), exc_info=error)
            self.errors += 1
            if len(self._why) < SHOWN_MAX:
                self._why[str(subject)] = type(error).__name__
            keep_a_connection(error)


def keep_a_connection(error: Exception) -> None:
    """A row may cost the connection: another session holds its lock, and Postgres is given up. The pass goes on with a
    new one; where there is none, Postgres is away, and what is raised ends the pass.
    """
    if isinstance(error, Error) and not connection.is_usable():
        connection.close()
        connection.ensure_connection()
        if not connection.is_usable():
            raise error
