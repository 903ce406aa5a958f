"""Processes held by a descriptor, which means this one process for ever: a number may mean another by now, and means
nothing at all in another namespace."""

import contextlib
import os
import select
import signal
from pathlib import Path
from typing import Final

_GROUP: Final = 4  # PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9


def kill_held_process(held: int) -> None:
    """The process, and the group that it leads or led, where its number can still be told."""
    try:
        signal.pidfd_send_signal(held, signal.SIGKILL, None, _GROUP)
    except ProcessLookupError:  # it leads none, or all of it has ended
        pass
    except OSError:
        _kill_group_by_number(held)
    with contextlib.suppress(OSError):  # it has ended
        signal.pidfd_send_signal(held, signal.SIGKILL)


def _kill_group_by_number(held: int) -> None:
    """For an older kernel, which tells the number as it is here; below one where there is none any more."""
    fields = dict(line.split(":\t", 1) for line in Path(f"/proc/self/fdinfo/{held}").read_text().splitlines())
    number = int(fields.get("Pid", "-1"))
    try:
        if number > 1 and os.getpgid(number) == number:
            os.killpg(number, signal.SIGKILL)
    except OSError:
        return


def has_ended(held: int, *, seconds: float = 0.0) -> bool:
    """Wait, and say whether it has: for the first process of a namespace, with every other in it."""
    poll = select.poll()
    poll.register(held, select.POLLIN)
    return bool(poll.poll(seconds * 1_000))
