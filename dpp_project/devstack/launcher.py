"""Prepares a child process and executes its program: signals, privilege, death with its parent, exec.

Run as a script with `python -I -S`, so that it costs milliseconds and needs the standard library alone:
`launcher.py PARENT_PID PRIVILEGE COMMAND...`. The process keeps its pid through every exec below.

Postgres refuses to run as root. PRIVILEGE says how to drop root:
- `plain`    we are not root, or the program does not mind.
- `userns`   a user namespace in which the uid is `nobody`; outside root still owns the files, so nothing needs a chown.
- `setpriv`  where namespaces are forbidden (most containers): uid `nobody`, allowed to pass folders root has closed.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dpp_project.processes.parent_death import die_with_parent

NOBODY = 65_534
CLONE_NEWUSER = 0x10000000
SETPRIV = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override", "--pdeathsig=KILL", "--"),
)


def enter_user_namespace() -> None:
    # os.unshare exists from Python 3.12 on; the floor is 3.11.
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"unshare: {os.strerror(error)}")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{NOBODY} {uid} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{NOBODY} {gid} 1", encoding="ascii")


def main() -> None:
    parent, privilege, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    # The supervisor waits for signals with its own blocked; a mask is inherited, a program expects none.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if privilege == "userns":
        enter_user_namespace()
    die_with_parent(parent)
    if privilege == "setpriv":
        command = [*SETPRIV, *command]
    os.execvp(command[0], command)  # noqa: S606  becoming the program is the point


if __name__ == "__main__":
    main()
