"""Which files a job may open, and that it may signal and inspect no process outside: Landlock, without any privilege.

A domain is for good and for all children. Of what a kernel does not know yet (its ABI is asked at run time) nothing is
said; `layers.py` names what is then open.
"""

import contextlib
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from runs.box import kernel

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
TRUNCATE: Final = 1 << 14
_OF_ABI: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Rights that each ABI brought, refused unless granted."""
_OF_FILES: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
_TCP: Final = 0b11
_SCOPES: Final = 0b11
TCP_ABI, SCOPES_ABI = 4, 6
_VERSION: Final = 1
_PATH_BENEATH: Final = 1

READ: Final = EXECUTE | READ_FILE | READ_DIR
LOOK: Final = READ_FILE | READ_DIR
KEEP: Final = WRITE_FILE | READ_FILE | READ_DIR | MAKE_DIR | MAKE_REG | TRUNCATE
"""To make files and folders, and none vanishes: what is written can be counted."""
USE: Final = KEEP | REMOVE_DIR | REMOVE_FILE


def landlock_abi() -> int:
    """0 where there is no Landlock."""
    try:
        return kernel.syscall("landlock_create_ruleset", None, 0, _VERSION)
    except OSError:
        return 0


Grants = tuple[tuple[int, int], ...]
"""Descriptors of files and folders, with what is allowed beneath each."""


def opened_paths(paths: Iterable[str], allowed: int) -> Iterator[tuple[int, int]]:
    """Those that exist, for as long as this process lives; of a link, where it leads."""
    for path in paths:
        with contextlib.suppress(OSError):
            folder = Path(path).is_dir()
            yield os.open(path, os.O_PATH | os.O_CLOEXEC), allowed if folder else allowed & _OF_FILES


def landlock_ruleset(grants: Iterable[tuple[int, int]]) -> int:
    """A descriptor of these rules. Raises OSError where the kernel knows none."""
    handled = max(rights for since, rights in _OF_ABI.items() if since <= _ABI)
    attributes = struct.pack("QQQ", handled, _TCP if _ABI >= TCP_ABI else 0, _SCOPES if _ABI >= SCOPES_ABI else 0)
    size = 24 if _ABI >= SCOPES_ABI else 16 if _ABI >= TCP_ABI else 8
    made = kernel.syscall("landlock_create_ruleset", attributes, size, 0)
    for descriptor, allowed in grants:
        rule = struct.pack("=Qi", allowed & handled, descriptor)
        kernel.syscall("landlock_add_rule", made, _PATH_BENEATH, rule, 0)
    return made


def restrict_by_landlock(rules: int) -> None:
    """For good. Needs PR_SET_NO_NEW_PRIVS."""
    kernel.syscall("landlock_restrict_self", rules, 0)


_ABI: Final = landlock_abi()


def kernel_knows_landlock() -> bool:
    return _ABI > 0
