"""Wakes the publisher of this process after a commit of this process. Others find the event at their next look."""

import threading

from dpp_project.processes.per_process import PerProcess


@PerProcess
def publisher_bell() -> threading.Event:
    return threading.Event()


def ring_publisher() -> None:
    publisher_bell().set()
