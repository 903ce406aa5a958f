"""The command line of bubblewrap: what a workspace and what a tool over a volume may see. And why it may not work here.

As root everything inside runs as a user of its own, never as root of this machine: files below /proc/sys ask the real
user alone, and no limit of processes binds root. That user may not walk to the volume, so root shows it the volume in a
mount namespace of their own, at a folder that every system has.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from ops.workspaces.drivers.base import HOME, DriverUnavailable
from runs.box import seccomp

SANDBOX_UIDS: Final = range(60_578, 61_184)
"""Of no person and no service; a range that systemd and Debian leave free. Each workspace is one of them, by its id.
The kernel counts by user what watches files, waits as a signal or lies in a pipe, and one tenant could have it all.
"""
INSIDE_UID: Final = 1_000
SHOWN_AT: Final = "/mnt"
_SHOW: Final = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
PROBE_SECONDS: Final = 10.0
SYSTEM_PYTHON: Final = "/usr/bin/python3"
TMP_BYTES: Final = 256_000_000
SHM_BYTES: Final = 64_000_000

_ISOLATED: Final = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup"),
    *("--disable-userns", "--cap-drop", "ALL", "--new-session", "--as-pid-1", "--clearenv", "--hostname", "workspace"),
    *("--uid", str(INSIDE_UID), "--gid", str(INSIDE_UID)),
)
_SYSTEM: Final = (
    *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin", "/sbin"),
    *("--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"),
    *("--proc", "/proc", "--dev", "/dev"),
)
_ETC: Final = (
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf"),
)
_ETC_WRITTEN: Final = {
    "/etc/passwd": f"user:x:{INSIDE_UID}:{INSIDE_UID}::{HOME}:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n",
    "/etc/group": f"user:x:{INSIDE_UID}:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost workspace\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}

_IOPRIO_WHO_USER: Final = 3
_PUNCH_HOLE: Final = 2
_NOT_OF_THE_INIT: Final = (
    *(seccomp.CallRule(call, 0, (1,)) for call in ("prlimit64", "sched_setscheduler", "sched_setparam")),
    *(seccomp.CallRule(call, 0, (1,)) for call in ("sched_setattr", "sched_setaffinity", "migrate_pages")),
    *(seccomp.CallRule("setpriority", 0, (os.PRIO_USER,)), seccomp.CallRule("setpriority", 1, (1,))),
    *(seccomp.CallRule("ioprio_set", 0, (_IOPRIO_WHO_USER,)), seccomp.CallRule("ioprio_set", 1, (1,))),
)
"""Neither by its number, nor with all that its user has. A tenant has the init's user, and the kernel asks no more of
who sets another's limits: with none of its descriptors left, or the last place in the queue, an init would hold no
deadline.
"""
_NO_ROOM_AT_ONCE: Final = (
    seccomp.CallRule("fallocate", 1, (_PUNCH_HOLE,), mask=_PUNCH_HOLE, unless=True, error=errno.EOPNOTSUPP),
)
"""One such call takes all of a disk in no time, before its free space is looked at again. A program that meets a file
system without the call writes instead.
"""
_REFUSED: Final = (
    *("mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick"),
    *("mount_setattr", "name_to_handle_at", "open_by_handle_at", "setns", "fanotify_init", "quotactl", "quotactl_fd"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open", "userfaultfd", "keyctl"),
    *("add_key", "request_key", "acct", "reboot", "kexec_load", "kexec_file_load", "init_module", "finit_module"),
    *("delete_module", "swapon", "swapoff", "adjtimex", "clock_adjtime", "clock_settime", "syslog", "pidfd_getfd"),
)
"""Nothing without a privilege, or large parts of the kernel that few programs need."""


def uid_of(workspace_id: str) -> int:
    """The user of this machine that everything inside is, and that owns what its volumes hold."""
    digest = hashlib.sha256(workspace_id.encode()).digest()
    return SANDBOX_UIDS[int.from_bytes(digest[:8], "big") % len(SANDBOX_UIDS)]


@dataclass(frozen=True, slots=True)
class SandboxLine:
    """A command line, and the descriptors it names."""

    arguments: tuple[str, ...]
    descriptors: tuple[int, ...]


def workspace_line(
    home: Path,
    *,
    mark: tuple[str, str],
    files: Mapping[str, int],
    inherited: Sequence[int],
    calls: int,
    info: int,
    status: int,
) -> SandboxLine:
    """A workspace: the system read-only, its home, and two small file systems in memory. The init's environment is the
    mark alone, which no tenant can read.
    """
    copied = [word for path, fd in files.items() for word in ("--perms", "0444", "--file", str(fd), path)]
    etc = [word for path in _ETC for word in ("--ro-bind-try", path, path)]
    small = [
        *("--perms", "1777", "--size", str(SHM_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),  # noqa: S108
        *("--perms", "1777", "--size", str(TMP_BYTES), "--tmpfs", "/tmp"),  # noqa: S108
    ]
    arguments = (
        *(*_as_sandbox_user(home), "bwrap", *_ISOLATED, *_SYSTEM, *small, *etc, *copied),
        *("--bind", _source(home), HOME, "--chdir", "/", "--remount-ro", "/"),
        *("--info-fd", str(info), "--json-status-fd", str(status), "--seccomp", str(calls)),
        *("--setenv", *mark, SYSTEM_PYTHON, "-I", "-S", "/run/pid1.py", *map(str, inherited)),
    )
    return SandboxLine(arguments, (*files.values(), *inherited, calls, info, status))


def tool_line(home: Path, command: Sequence[str], *, capability: str | None, read_only: bool, info: int) -> SandboxLine:
    """A program over one volume, which sees nothing else. `capability` reaches what the tenant closed to itself."""
    bind = "--ro-bind" if read_only else "--bind"
    given = ("--cap-add", capability) if capability else ()
    arguments = (
        *(*_as_sandbox_user(home), "bwrap", *_ISOLATED, *given, *_SYSTEM, "--remount-ro", "/dev"),
        *(bind, _source(home), HOME, "--chdir", HOME, "--remount-ro", "/", "--info-fd", str(info)),
        *("--setenv", "PATH", "/usr/bin", "--setenv", "LC_ALL", "C.UTF-8", *command),
    )
    return SandboxLine(arguments, (info,))


def read_child_pid(info: IO[bytes]) -> int | None:
    """What bubblewrap says of the process inside; None where it ended before."""
    try:
        found: dict[str, Any] = json.load(info)
    except ValueError:
        return None
    return int(found["child-pid"])


def why_not() -> str | None:
    """What this machine lacks to run workspaces as processes, in words; None where all is there. Looked at once."""
    return _why_not(os.geteuid())


@cache
def _why_not(_euid: int) -> str | None:
    if not seccomp.kernel_knows_seccomp():
        return "no filter of kernel calls is known for this machine: Linux on x86-64 or arm64, or the docker driver"
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed: make setup-workspaces, or apt-get install bubblewrap"
    for program in (SYSTEM_PYTHON, "/usr/bin/tar", "/usr/bin/setpriv", "/usr/bin/unshare"):
        if not Path(program).exists():
            return f"{program} is missing: apt-get install python3 tar util-linux"
    probe = (*_as_sandbox_user(Path("/usr")), "bwrap", *_ISOLATED, *_SYSTEM, "--bind", _source(Path("/usr")), HOME)
    try:
        done = subprocess.run(  # noqa: S603  our own command line
            (*probe, "/bin/true"),
            env={"PATH": os.defpath},
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        return f"bubblewrap does not run: {fault}"
    if done.returncode != 0:
        return (
            "namespaces of user, pid, mount and network cannot be made here: "
            f"{done.stderr.strip() or done.returncode}. See kernel.unprivileged_userns_clone, "
            "kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces, or take the docker driver"
        )
    return None


def refuse_where_it_cannot_work() -> None:
    if (why := why_not()) is not None:
        raise DriverUnavailable(why, reason="NoNamespaces")


def _as_sandbox_user(home: Path) -> tuple[str, ...]:
    """What stands before bubblewrap so that root starts nothing inside as root."""
    if os.geteuid() != 0:
        return ()
    owner = home.stat().st_uid
    uid = str(owner if owner in SANDBOX_UIDS else SANDBOX_UIDS[0])  # the probe's is no home
    return (
        *("/usr/bin/unshare", "--mount", "--", "/bin/sh", "-c", _SHOW, "sh", str(home), SHOWN_AT),
        *("/usr/bin/setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--"),
    )


def _source(home: Path) -> str:
    return SHOWN_AT if os.geteuid() == 0 else str(home)


@contextlib.contextmanager
def workspace_files(init: str) -> Iterator[dict[str, int]]:
    """What is written into a workspace's own root, as descriptors."""
    with contextlib.ExitStack() as stack:
        files = {**_ETC_WRITTEN, "/run/pid1.py": init}
        yield {path: stack.enter_context(_memory_file(content.encode())) for path, content in files.items()}


def refused_calls() -> AbstractContextManager[int]:
    """The filter of kernel calls, as bubblewrap reads it."""
    return _memory_file(seccomp.seccomp_code((*_NOT_OF_THE_INIT, *_NO_ROOM_AT_ONCE), (), _REFUSED))


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[int]:
    fd = os.memfd_create("dpp-workspace", 0)
    try:
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)
