"""Calls of the Linux kernel that Python has no name for, on x86-64 and arm64. Elsewhere every one fails with ENOSYS."""

import contextlib
import ctypes
import errno
import os
import platform
import signal
import sys
from typing import Any, Final

CLONE_NEWNS: Final = 0x0002_0000
CLONE_NEWIPC: Final = 0x0800_0000
CLONE_NEWUSER: Final = 0x1000_0000
CLONE_NEWPID: Final = 0x2000_0000
CLONE_NEWNET: Final = 0x4000_0000
_CLONE_CHILD_SETTID: Final = 0x0100_0000
_CLONE_CHILD_CLEARTID: Final = 0x0020_0000
_PR_GET_TID_ADDRESS: Final = 40
PR_SET_DUMPABLE: Final = 4
PR_SET_SECCOMP: Final = 22
PR_CAPBSET_DROP: Final = 24
PR_SET_NO_NEW_PRIVS: Final = 38
CAPABILITIES_MAX: Final = 64

MACHINES: Final = ("x86_64", "aarch64")
MACHINE: Final = (
    MACHINES.index(platform.machine()) if sys.platform == "linux" and platform.machine() in MACHINES else -1
)
"""The place of this machine's numbers below; -1 where they are not known."""

NUMBERS: Final[dict[str, tuple[int, int]]] = {  # -1: the machine has no such call
    "accept": (43, 202),
    "accept4": (288, 242),
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bind": (49, 200),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chmod": (90, -1),
    "chown": (92, -1),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "connect": (42, 203),
    "delete_module": (176, 106),
    "fallocate": (285, 47),
    "fanotify_init": (300, 262),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "fcntl": (72, 25),
    "finit_module": (313, 273),
    "fremovexattr": (199, 16),
    "fsconfig": (431, 431),
    "fsetxattr": (190, 7),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "futimesat": (261, -1),
    "init_module": (175, 105),
    "inotify_init": (253, -1),
    "inotify_init1": (294, 26),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "kill": (62, 129),
    "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "lchown": (94, -1),
    "listen": (50, 201),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mmap": (9, 222),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264),
    "open": (2, -1),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "sendmmsg": (307, 269),
    "sendmsg": (46, 211),
    "sendto": (44, 206),
    "setns": (308, 268),
    "setpgid": (109, 154),
    "setpriority": (141, 140),
    "setsid": (112, 157),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "shmget": (29, 194),
    "socket": (41, 198),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "truncate": (76, 45),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "utime": (132, -1),
    "utimensat": (280, 88),
    "utimes": (235, -1),
}
"""From arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h of Linux."""
_CLONE: Final = NUMBERS["clone"][MACHINE]

# Looked up once: a job of the box would pay for it in copied pages.
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_SYSCALL: Final = _LIBC.syscall
_SYSCALL.restype = ctypes.c_long
_PRCTL: Final = getattr(_LIBC, "prctl", None)  # Linux alone has it
_WITH_LOCK: Final = ctypes.PyDLL(None, use_errno=True)
_ZERO: Final = ctypes.c_long(0)


def syscall_number(name: str) -> int:
    return NUMBERS[name][MACHINE]


def syscall(name: str, *arguments: Any) -> int:
    """The call's answer. Raises OSError, whose message begins with its name."""
    if MACHINE < 0:
        raise OSError(errno.ENOSYS, f"{name}: not known on this machine")
    answer: int = _SYSCALL(
        syscall_number(name), *(ctypes.c_long(one) if isinstance(one, int) else one for one in arguments)
    )
    if answer < 0:
        _raise_kernel_call_error(name)
    return answer


def prctl(option: int, value: Any, more: Any = 0) -> None:
    if _PRCTL is None or _PRCTL(option, value, more, 0, 0) != 0:
        _raise_kernel_call_error(f"prctl {option}")


def _raise_kernel_call_error(name: str) -> None:
    code = ctypes.get_errno()
    raise OSError(code, f"{name}: {os.strerror(code)}")


def fork(namespaces: int = 0) -> int:
    """os.fork(), with the child in new namespaces of these kinds. Only for a process with one thread.

    One clone instead of a fork and an unshare: a process id namespace can be had by a child alone, and all of it in one
    call is a tenth of a millisecond cheaper. What Python does around a fork is done; what the C library does for other
    threads is not needed, but for the number of the child's own, which it keeps for its locks.
    """
    if not namespaces:
        return os.fork()
    thread = ctypes.c_void_p()
    flags = namespaces | signal.SIGCHLD
    with contextlib.suppress(OSError):
        prctl(_PR_GET_TID_ADDRESS, ctypes.byref(thread))
        flags |= _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID
    tail = (thread.value or 0, 0) if MACHINE == 0 else (0, thread.value or 0)  # x86 has the two the other way round
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = _WITH_LOCK.syscall(_CLONE, ctypes.c_long(flags), _ZERO, _ZERO, *(ctypes.c_long(one) for one in tail))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        _raise_kernel_call_error("clone")
    return pid


def end_on(signals: tuple[int, ...]) -> None:
    """Have these signals end this process by C's `_exit`, with their number for its exit code.

    The first process of a namespace is spared every signal that it has no handler for; and a handler of Python's
    waits for the interpreter, which native code may keep for ever.
    """
    leave = ctypes.cast(_LIBC._exit, ctypes.c_void_p)  # noqa: SLF001  its name
    for one in signals:
        _LIBC.signal(one, leave)


def drop_bounding_set() -> None:
    """No program that is executed from here on gains a capability by its owner. For a process that may."""
    with contextlib.suppress(OSError):  # past the last, or a process that has none to drop
        for capability in range(CAPABILITIES_MAX):
            prctl(PR_CAPBSET_DROP, capability)


def drop_capabilities() -> None:
    syscall("capset", _CAPABILITIES_OF_SELF, _NO_CAPABILITIES)


def undumpable(*, really: bool = True) -> None:
    """Closed to every other process of the same user: its memory, environment and descriptors (see proc(5))."""
    if sys.platform == "linux":
        prctl(PR_SET_DUMPABLE, 0 if really else 1)


_CAPABILITIES_OF_SELF: Final = ctypes.create_string_buffer(b"\x22\x05\x08\x20\0\0\0\0", 8)  # version 3, this process
_NO_CAPABILITIES: Final = ctypes.create_string_buffer(24)
