"""Files of this machine."""

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """There as a whole or not at all, whatever ends this program meanwhile."""
    try:
        _write_beside(path, content)
    except OSError as error:  # of the file's name, not of one that the caller never chose
        raise OSError(error.errno, error.strerror, str(path)) from None


def _write_beside(path: Path, content: bytes) -> None:
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(beside).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(beside).unlink()
        raise
