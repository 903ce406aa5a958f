"""Limits that a child sets on itself before it does what it was forked for. None can be lifted afterwards."""

import resource
import sys

from dpp_project.processes import process_tree


def lower_limit(which: int, wanted: int) -> None:
    """Both limits, the soft and the hard one; a hard limit that is lower already stays."""
    _, hard = resource.getrlimit(which)
    least = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(which, (least, least))


def lower_memory(more_bytes: int, *, above: int | None = None) -> None:
    """RLIMIT_DATA, so much above what this process has now. Only Linux counts private memory in it.

    `above` is what it has, where that is known. A child of a job that may not look into /proc goes by what the job had.
    """
    global _last_known  # noqa: PLW0603  inherited by forks, which is its point
    if sys.platform == "linux":
        _last_known = above or process_tree.process_memory().data or _last_known
        lower_limit(resource.RLIMIT_DATA, _last_known + more_bytes)


_last_known = 0
