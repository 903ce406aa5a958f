"""Calls that the kernel refuses a job and its children: no new socket, no other process, no mount, no namespace.

The filter costs microseconds and needs no privilege. It also shuts out Unix sockets on disk, such as a database's, and
keeps what the parent has handed over from being turned elsewhere (`connect` on a connected socket dials anew, in the
worker's network). `socketpair`, pipes, threads and forks stay. Linux on x86-64 and arm64; elsewhere there is no filter.
"""

import ctypes
import errno
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from runs.box import kernel

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
_IF_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_IF_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_ERROR: Final = 0x00050000
MODE_FILTER: Final = 2
_NUMBER_AT: Final = 0  # in struct seccomp_data
_ARCHITECTURE_AT: Final = 4
_ARGUMENTS_AT: Final = 16
_AUDIT: Final = (0xC000003E, 0xC00000B7)
_X32_CALLS: Final = 0x40000000
_STEP: Final = "HBBI"

REFUSED: Final = (
    # the network: a job has none, and a connection that its worker made leads nowhere else
    *("socket", "connect", "bind", "listen", "accept", "accept4", "sendmmsg"),
    # other processes: their memory, their descriptors, their limits, their place in the queue for a core
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_open", "pidfd_getfd"),
    *("setpriority", "sched_setscheduler", "sched_setparam", "sched_setattr", "ioprio_set", "migrate_pages"),
    *("move_pages", "setsid", "setpgid"),  # its group is how it is ended where it has no namespace of its own
    # namespaces, mounts, files by handle
    *("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "name_to_handle_at", "open_by_handle_at"),
    # files that a job could not open, changed by name; and who opens what
    *(
        "chmod",
        "fchmod",
        "fchmodat",
        "fchmodat2",
        "chown",
        "fchown",
        "lchown",
        "fchownat",
        "utime",
        "utimes",
        "futimesat",
    ),
    *("utimensat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr"),
    *("removexattrat", "truncate", "inotify_init", "inotify_init1"),
    # memory and queues that no limit counts, and that others could share
    *("memfd_create", "memfd_secret", "shmget", "shmat", "shmctl", "shmdt", "semget", "semctl", "semop", "semtimedop"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"),
    # large parts of the kernel that no pack needs
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open", "userfaultfd", "keyctl"),
    *("add_key", "request_key", "fanotify_init", "personality", "quotactl", "quotactl_fd", "acct", "reboot"),
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "swapon", "swapoff"),
    *("adjtimex", "clock_adjtime", "clock_settime", "syslog"),
)
UNKNOWN: Final = ("clone3", "openat2")
"""Answered as by an older kernel, so that the C library falls back to the call whose arguments a filter can read."""


@dataclass(frozen=True)
class CallRule:
    """Refused where the low half of an argument, masked, is one of these; or is none of them. Rules of one call stand
    next to each other.
    """

    call: str
    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFF_FFFF
    unless: bool = False
    error: int = errno.EACCES


_NEW_NAMESPACES: Final = 0x7E02_0000
_SHARED_ANONYMOUS: Final = 0x21
_O_TMPFILE: Final = 0x40_0000
_MSG_FASTOPEN: Final = 0x2000_0000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_F_SETOWN, _F_SETOWN_EX = 8, 15
RULES: Final = (
    CallRule("clone", 0, (0,), mask=_NEW_NAMESPACES, unless=True),
    CallRule("mmap", 3, (_SHARED_ANONYMOUS,), mask=_SHARED_ANONYMOUS),  # RLIMIT_DATA does not count it
    CallRule("ioctl", 1, (_TIOCSTI, _TIOCLINUX)),
    CallRule("fcntl", 1, (_F_SETOWN, _F_SETOWN_EX)),  # a signal to whom it likes
    CallRule("prlimit64", 0, (0,), unless=True),
    CallRule("sched_setaffinity", 0, (0,), unless=True),
    CallRule("kill", 0, (0xFFFF_FFFF,)),
    CallRule("prctl", 0, (kernel.PR_SET_DUMPABLE,)),
    CallRule("sendto", 3, (_MSG_FASTOPEN,), mask=_MSG_FASTOPEN),  # connects
    CallRule("sendmsg", 2, (_MSG_FASTOPEN,), mask=_MSG_FASTOPEN),
    CallRule("openat", 2, (_O_TMPFILE,), mask=_O_TMPFILE, error=errno.EOPNOTSUPP),  # shown by no folder
    CallRule("open", 1, (_O_TMPFILE,), mask=_O_TMPFILE, error=errno.EOPNOTSUPP),
)


class Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def kernel_knows_seccomp() -> bool:
    return _PROGRAM is not None


def refuse_system_calls() -> None:
    """From here on, for this process and its children, for good. Raises OSError where it cannot."""
    if _PROGRAM is None:
        raise OSError(errno.ENOSYS, "no filter is known for this machine")
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(_PROGRAM))


Instruction = tuple[int, int, int, int]


def _steps(
    machine: int, rules: Iterable[CallRule], unknown: Iterable[str], refused: Iterable[str]
) -> list[Instruction]:
    """Arguments first, since these few calls are frequent; then the list, whose jumps end at the last two steps."""
    steps: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_IF_EQUAL, 1, 0, _AUDIT[machine]),
        (_RETURN, 0, 0, _ERROR | errno.EACCES),  # calls of another architecture have other numbers
        (_LOAD, 0, 0, _NUMBER_AT),
        (_IF_AT_LEAST, 0, 1, _X32_CALLS),
        (_RETURN, 0, 0, _ERROR | errno.EACCES),
    ]
    for call, of_call in groupby(rules, key=lambda rule: rule.call):
        if kernel.NUMBERS[call][machine] >= 0:
            steps += _by_arguments(kernel.NUMBERS[call][machine], list(of_call))
    for name in unknown:
        steps += [(_IF_EQUAL, 0, 1, kernel.NUMBERS[name][machine]), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    numbers = [kernel.NUMBERS[name][machine] for name in refused if kernel.NUMBERS[name][machine] >= 0]
    steps += [(_IF_EQUAL, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    return [*steps, (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERROR | errno.EACCES)]


def _by_arguments(number: int, rules: Sequence[CallRule]) -> list[Instruction]:
    """All rules of one call; what none of them refuses is allowed."""
    steps: list[Instruction] = []
    for rule in rules:
        count = len(rule.values)
        steps += [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * rule.argument), (_AND, 0, 0, rule.mask)]
        for at, value in enumerate(rule.values):
            left = count - 1 - at
            if rule.unless:
                steps.append((_IF_EQUAL, left + 1, 0, value))
            else:
                steps.append((_IF_EQUAL, left, 0 if left else 1, value))
        steps.append((_RETURN, 0, 0, _ERROR | rule.error))
    steps.append((_RETURN, 0, 0, _ALLOW))
    return [(_IF_EQUAL, 0, len(steps), number), *steps]


def seccomp_code(rules: Iterable[CallRule], unknown: Iterable[str], refused: Iterable[str]) -> bytes:
    """As a program that loads filters for others takes it."""
    return b"".join(struct.pack(_STEP, *step) for step in _steps(kernel.MACHINE, rules, unknown, refused))


def seccomp_program(rules: Iterable[CallRule], unknown: Iterable[str], refused: Iterable[str]) -> Filter:
    steps = seccomp_code(rules, unknown, refused)
    kept = ctypes.create_string_buffer(steps)
    return Filter(len(steps) // struct.calcsize(_STEP), ctypes.cast(kept, ctypes.c_void_p))


# Made once, in the zygote: a pack process that made it again would pay for it at each run.
_PROGRAM: Final = None if kernel.MACHINE < 0 else seccomp_program(RULES, UNKNOWN, REFUSED)
