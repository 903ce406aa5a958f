"""Become a process as a container has it with `cap_drop: ALL` under Docker's default seccomp: no capability, whatever
the user, and no new namespace; then execute a program.

python -m tests.gear.faults.without_namespaces COMMAND…
"""

import ctypes
import errno
import os
import sys
from typing import Final

from runs.box import kernel, seccomp

NAMESPACES: Final = ("unshare", "setns", "mount", "umount2", "pivot_root", "fsopen", "open_tree", "move_mount")


def enter() -> None:
    """For good, for this process and its children."""
    kernel.drop_bounding_set()
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    new_namespaces = next(rule for rule in seccomp.RULES if rule.call == "clone")
    program = seccomp.seccomp_program(rules=(new_namespaces,), unknown=("clone3",), refused=NAMESPACES)
    kernel.prctl(kernel.PR_SET_SECCOMP, seccomp.MODE_FILTER, ctypes.byref(program))
    try:
        kernel.syscall("unshare", kernel.CLONE_NEWUSER)
    except OSError as error:
        assert error.errno == errno.EACCES
    else:
        raise AssertionError("a namespace could be had")


if __name__ == "__main__":
    enter()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606
