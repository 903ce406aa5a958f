"""What a job may read: the system's programs and libraries, Python with its packages, our code, and what was named.

Not the folder that our code lies in (an environment file or the devstack's state may lie beside it), not /etc as a
whole, no home, no temporary folder.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SYSTEM: Final = ("/bin", "/lib", "/lib32", "/lib64", "/sbin", "/usr")
_ETC: Final = (
    *("alternatives", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "timezone"),
    "nsswitch.conf",
    *("ca-certificates", "pki/tls/certs", "ssl/certs", "ssl/openssl.cnf"),
)
DEVICES: Final = ("/dev/null", "/dev/random", "/dev/urandom")
NAMED_BY: Final = ("TESSDATA_PREFIX",)
"""Variables of the box's own environment that name a folder."""


def readable_paths(root: Path, named: Iterable[str]) -> list[str]:
    """Those that exist. `root` is where our code lies; `named` are files and folders that the operator named."""
    python = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *sys.path}
    found = [
        *SYSTEM,
        *(f"/etc/{name}" for name in _ETC),
        *(path for path in python if path and Path(path) not in {root, Path("/")}),
        *(str(package) for package in _packages(root)),
        *(os.environ[name] for name in NAMED_BY if name in os.environ),
        *(path for path in named if os.path.isabs(path)),  # noqa: PTH117  strings throughout
    ]
    return [path for path in dict.fromkeys(found) if os.path.exists(path)]  # noqa: PTH110


def _packages(root: Path) -> list[Path]:
    return sorted(found.parent for found in root.glob("*/__init__.py") if not found.parent.name.startswith("."))
