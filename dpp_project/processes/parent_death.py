"""A child that does not outlive its parent.

A supervisor killed with -9 runs no cleanup; only the kernel can still act for it. Linux sends a chosen signal to a
process whose parent dies (PR_SET_PDEATHSIG). It is forgotten at fork and at every change of credentials, so each child
asks for itself, as late as it can. Elsewhere than on Linux this does nothing: the next start finds what was left.
"""

import ctypes
import os
import signal
import sys

from dpp_project.processes import pidfd

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)  # looked up once: a job of the box pays for it in copied pages


def die_with_parent(parent: int | None = None, *, held: int | None = None) -> None:
    """Have the kernel kill this process when its parent dies.

    The parent may have died before we asked, and then no signal would ever come: with `parent`, the pid it had, this
    process leaves at once in that case. A process in a namespace of its own has no number for its parent; it is given
    a descriptor of it, as `held`.
    """
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if (parent is not None and os.getppid() != parent) or (held is not None and pidfd.has_ended(held)):
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies, so that they can be found and ended."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def disown_orphans() -> None:
    """Leave them to the first process of the machine again."""
    _prctl(PR_SET_CHILD_SUBREAPER, 0)


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl {option}: {os.strerror(error)}")
