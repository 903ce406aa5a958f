"""Another session that has an advisory lock."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from dpp_project.stores import advisory_lock

PATIENCE_SECONDS = 20


@contextmanager
def held_by_another(key: advisory_lock.Key) -> Iterator[threading.Event]:
    """Until the block ends, or the event it gives is set."""
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        with advisory_lock.advisory_lock(key):
            locked.set()
            release.wait(PATIENCE_SECONDS)
        connections.close_all()

    thread = threading.Thread(target=hold)
    thread.start()
    assert locked.wait(PATIENCE_SECONDS)
    try:
        yield release
    finally:
        release.set()
        thread.join()
