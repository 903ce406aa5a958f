"""What a folder takes on disk, counted no further than to the limit."""

import contextlib
import os
from pathlib import Path
from typing import Final

DEPTH_MAX: Final = 50
_BLOCK: Final = 512


def disk_use_is_within(folder: Path, bytes_max: int, files_max: int) -> bool:
    """Whether all in it stays within both. A stranger made the folder: nothing is followed, nothing is too deep."""
    left_bytes, left_files = bytes_max, files_max
    unseen = [(str(folder), 0)]
    while unseen:
        path, depth = unseen.pop()
        if depth > DEPTH_MAX:
            return False
        with contextlib.suppress(OSError), os.scandir(path) as entries:  # gone, or closed by its owner: counted above
            for entry in entries:
                left_files -= 1
                with contextlib.suppress(OSError):
                    left_bytes -= entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                if left_bytes < 0 or left_files < 0:
                    return False
                if entry.is_dir(follow_symlinks=False):
                    unseen.append((entry.path, depth + 1))
    return True
