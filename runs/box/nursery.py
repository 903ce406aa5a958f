"""The process that zygotes are forked from: what all packs use is loaded here, what one pack uses in its own zygote.

A fork copies the tables of all the memory that its parent has mapped. With one zygote for all packs the smallest pack's
runs paid for the largest one's libraries, and that was half of what they cost. So each pack has a zygote, with a
control socket straight to the worker, and they share the pages of the interpreter.

They live and die together. The end of this process's own socket means that the worker is dead: the zygotes see the same
at theirs and end, and this process waits for them. A zygote that dies takes the others along; the next run gets a new
nursery.
"""

import contextlib
import gc
import os
import select
import shutil
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from dpp_project.processes import parent_death, process_tree
from runs.box import zygote

IGNORED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LEAVING_SECONDS: Final = 2.0
"""How long the zygotes may take to end their jobs when the worker is dead."""


def main(leash: int, scratch: str, controls: Mapping[str, int]) -> NoReturn:
    """A zygote for each module, which serves its control socket; then wait for the end of the worker, or of one."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o077)
    parent_death.adopt_orphans()  # what a zygote leaves behind that dies itself
    gc.collect()
    gc.freeze()  # a child's collector would touch, and so copy, every page we share
    nursery, folder = os.getpid(), Path(scratch)
    for at, (module, control) in enumerate(controls.items()):
        if os.fork() == 0:
            try:
                parent_death.die_with_parent(nursery)
                for other in {leash, *controls.values()} - {control}:
                    os.close(other)
                zygote.main(control, module, folder / str(at))
            finally:
                os._exit(1)
    for control in controls.values():
        os.close(control)
    worker = socket.socket(fileno=leash)
    if _worker_ended(worker):
        _let_them_leave()
    _kill_all()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _worker_ended(worker: socket.socket) -> bool:
    """Wait; False when it is one of the zygotes that ended."""
    born, wake = socket.socketpair()
    for one in (born, wake):
        one.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    try:
        while not _one_is_dead():
            ready, _, _ = select.select([worker, born], [], [])
            if worker in ready:
                return True
            with contextlib.suppress(BlockingIOError):
                born.recv(4096)
        return False
    finally:
        signal.set_wakeup_fd(-1)


def _one_is_dead() -> bool:
    """Left unreaped: a zombie still tells its children from strangers."""
    return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _let_them_leave() -> None:
    deadline = time.monotonic() + LEAVING_SECONDS
    while time.monotonic() < deadline:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            time.sleep(0.005)


def _kill_all() -> None:
    """The zygotes, and what a dead one's jobs were handed up to us. Their own children follow them here."""
    while left := process_tree.children(os.getpid()):
        for pid in left:
            process_tree.kill(pid)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
