"""A loop that takes one turn after the other, and pauses longer and longer while Postgres is away."""

import threading
from collections.abc import Callable

import structlog
from django.db import connections

from dpp_project.stores.postgres import AWAY_PAUSE_MAX_SECONDS, DATABASE_AWAY

log = structlog.get_logger("dpp.automations")


def turn_until(stop: threading.Event, turn: Callable[[], object], *, pause_seconds: float, what: str) -> None:
    """`what` names them in the log."""
    pause = pause_seconds
    while not stop.is_set():
        try:
            turn()
            pause = pause_seconds
        except DATABASE_AWAY as error:
            log.warning("Postgres is away, turns wait", of=what, seconds=pause, exc_info=error)
            connections.close_all()
            pause = min(pause * 2, AWAY_PAUSE_MAX_SECONDS)
        stop.wait(pause)
