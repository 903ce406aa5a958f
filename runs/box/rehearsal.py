"""Do a pack's work once where its runs are forked from, so that no run pays again for what happens the first time only.

A first time imports, compiles patterns, fills caches and lets the interpreter specialise its code: all of it in memory
that a fork shares, where before each run did it anew in pages of its own. The rehearsal sees no secret and no tenant's
input: it is the pack's own example (packs that need neither network nor upload), or a function of the pack.

It must leave the process as it was, since jobs are forked from it: one thread, no child, no descriptor. Where it does
not, or fails, or takes longer than SECONDS, this process ends, and the nursery makes the zygote anew without it.
"""

import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
import time
from typing import Any, Final

from dpp_project.processes import process_tree
from runs.box import kernel, wire
from runs.box.pack_process import PackProcess
from runs.packs.pack import REHEARSE_EXAMPLE, Pack

SECONDS: Final = 5.0
_CEILING_MICROS: Final = 1_000_000_000


def rehearsal_went_well(pack: Pack[Any], module: str) -> bool:
    """False where this process must not be forked from. The alarm ends it, whatever it hangs in; so may the pack."""
    before = _descriptors()
    kernel.end_on((signal.SIGALRM,))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        if pack.rehearsal == REHEARSE_EXAMPLE:
            _example(pack, module)
        elif pack.rehearsal is not None:
            pack.rehearsal()
    except Exception as error:  # noqa: BLE001  whatever it is, the pack works without
        sys.stderr.write(f"box: {module} is not rehearsed: {type(error).__name__}\n")
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    _give_back_memory()
    left = _left_behind(before)
    if left:
        sys.stderr.write(f"box: {module} is not rehearsed: it leaves {left}\n")
    return not left


def _example(pack: Pack[Any], module: str) -> None:
    """As a pack process does it, conversation included."""
    request = {
        "run_id": "rehearsal",
        "module": module,
        "attribute": "PACK",
        "inputs": dict(pack.example),
        "artifacts_wanted": {},
        "environment": {},
        "ceiling_micros": _CEILING_MICROS,
        "price_version": None,
    }
    ours, theirs = socket.socketpair()
    with ours, theirs:
        PackProcess(theirs).do(request, deadline=time.monotonic() + SECONDS)
        theirs.shutdown(socket.SHUT_WR)
        said = "nothing"
        while said not in {"done", "failed"}:
            said = wire.receive_frame(ours).document["kind"]
    if said != "done":
        raise RuntimeError("the example fails")


def _give_back_memory() -> None:
    """What was freed stays this process's otherwise: after a page read by Tesseract 75 MB."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _left_behind(before: set[str]) -> str:
    if len(os.listdir("/proc/self/task")) != 1:  # noqa: PTH208  native threads too
        return "threads"
    if process_tree.child_processes(os.getpid()):
        return "children"
    return "open files" if _descriptors() - before else ""


def _descriptors() -> set[str]:
    """Those that reach something. (Tesseract keeps /dev/null open, for its own messages.)"""
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):  # the listing's own
            if not os.readlink(f"/proc/self/fd/{name}").startswith("/dev/"):  # noqa: PTH115
                found.add(name)
    return found
