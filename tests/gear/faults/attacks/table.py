"""The table of attacks, and what they are written with."""

import ctypes
import platform
from collections.abc import Callable
from typing import Any, Final

from runs.box import kernel

STRAY: Final = "dpp-s-{worker}"
LEFT: Final = "dpp-left-{worker}-"
"""Names of processes and of files that must not be there afterwards: of one worker, since tables run side by side."""
CANARY: Final = "canary-3f9c"
WHO: Final = "worker nursery zygote sibling"
Attack = Callable[[dict[str, Any]], object]
ATTACKS: Final[dict[str, Attack]] = {}
DESTRUCTIVE: Final[set[str]] = set()
"""Would harm whoever runs the table, were they not refused: they have no counterpart in the open."""
PR_SET_NAME: Final = 15
LIBC: Final = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
X86: Final = platform.machine() == "x86_64"
_OTHER_CALLS: Final = {
    "setresuid": (117, 147), "setgroups": (116, 159), "sethostname": (170, 161), "settimeofday": (164, 170),
    "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138), "pidfd_send_signal": (424, 424), "execveat": (322, 281),
}  # fmt: skip


def call(name: str, *arguments: Any) -> int:
    number = (_OTHER_CALLS.get(name) or kernel.NUMBERS[name])[0 if X86 else 1]
    given = (ctypes.c_long(one) if isinstance(one, int) else one for one in arguments)
    answer: int = LIBC.syscall(ctypes.c_long(number), *given)
    if answer < 0:
        raise OSError(ctypes.get_errno(), name)
    return answer


def did(function: Callable[..., object], *arguments: Any, **options: Any) -> str:
    return f"did: {function(*arguments, **options)}"


def attack(function: Attack) -> Attack:
    ATTACKS[function.__name__] = function
    return function


def destructive(function: Attack) -> Attack:
    DESTRUCTIVE.add(function.__name__)
    return attack(function)


def each(names: str, make: Callable[[str], Attack], *, harmful: bool = False, prefix: str = "") -> None:
    for name in names.split():
        ATTACKS[prefix + name] = make(name)
        if harmful:
            DESTRUCTIVE.add(prefix + name)


def read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read(4096)
