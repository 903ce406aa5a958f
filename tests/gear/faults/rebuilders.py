"""Another rebuild: one that is at work now, and one that was frozen in the middle."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from budget.rebuild import lease
from budget.redis import keys, scripts


@contextmanager
def another_at_work() -> Iterator[None]:
    """Its lease does not run out within the block."""
    with lease.rebuild_lease(scripts.shared_scripts().client) as held:
        assert held is not None
        yield


def taken_for_dead() -> None:
    """The rebuild at work has not renewed for as long as its lease lasts."""
    assert scripts.shared_scripts().client.delete(keys.REBUILD) == 1


def lease_ran_out() -> None:
    """Of a rebuild that died, if one did: time has passed."""
    scripts.shared_scripts().client.delete(keys.REBUILD)


def in_another_session(work: Callable[[], Any]) -> Any:
    """In a thread, so on a database connection of its own."""
    done: list[Any] = []

    def run() -> None:
        done.append(work())
        connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done, "it raised"
    return done[0]
