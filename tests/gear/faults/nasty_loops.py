"""Loops that misbehave, in a real process `events`: `python -m tests.gear.faults.nasty_loops NAME...`.

Beside them runs `good`, which writes a line each time it comes round.
"""

import os
import sys
import threading
import time

import django
import structlog
from django.db import connection

log = structlog.get_logger("gear.loops")


def good(stop: threading.Event) -> None:
    while not stop.is_set():
        log.info("good came round")
        stop.wait(0.05)
    log.info("good gave back")


def raises(stop: threading.Event) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    raise RuntimeError("as planned")


def exits(stop: threading.Event) -> None:
    sys.exit(3)


def returns(stop: threading.Event) -> None:
    return


def hangs(stop: threading.Event) -> None:
    log.info("hangs")
    threading.Event().wait()


def gives_back_late(stop: threading.Event) -> None:
    stop.wait()
    time.sleep(0.5)
    log.info("late gave back")


def is_slow_to_stop(stop: threading.Event) -> None:
    log.info("the slow one is at work")
    stop.wait()
    log.info("slow to stop")
    time.sleep(600)


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")
    django.setup()
    from dpp_project.loops_server import host, supervised_loop
    from dpp_project.outbox.events import Loop
    from dpp_project.processes import stacks

    supervised_loop.HANG_SECONDS = float(os.environ.get("GEAR_HANG_SECONDS", "120"))  # type: ignore[misc]
    host.LOOK_SECONDS = 0.1  # type: ignore[misc]
    host.GRACE_SECONDS = float(os.environ.get("GEAR_GRACE_SECONDS", "20"))  # type: ignore[misc]

    def slowly() -> dict[str, list[str]]:
        time.sleep(float(os.environ.get("GEAR_STACKS_SECONDS", "0")))  # a machine that is slow to say where all are
        return stacks.where_threads_are()

    host.where_threads_are = slowly  # type: ignore[attr-defined]  # it is imported there, and not exported
    return host.LoopsHost([Loop("good", good), *(Loop(name, globals()[name]) for name in sys.argv[1:])]).run()


if __name__ == "__main__":
    sys.exit(main())
