"""Limits that a child sets on itself before it does what it was forked for. None can be lifted afterwards."""

import resource
import sys

from dpp_project.processes import process_tree


def lower(which: int, wanted: int) -> None:
    """Both limits, the soft and the hard one; a hard limit that is lower already stays."""
    _, hard = resource.getrlimit(which)
    least = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(which, (least, least))


def lower_memory(more_bytes: int) -> None:
    """RLIMIT_DATA, so much above what this process has now. Only Linux counts private memory in it."""
    if sys.platform == "linux":
        lower(resource.RLIMIT_DATA, process_tree.memory().data + more_bytes)
