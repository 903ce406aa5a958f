"""The versions of the normaliser, and how the clusters of one are followed by those of the next.

A version never changes: a cluster's hash would move and its decisions would be lost. A new rule is a new version. It
computes an older version's hash only for a hash of its own that has no cluster yet, and only to find the cluster that
the same fault had before; after that the new hash is known and the old one is never computed again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ops.auth_errors.normaliser import v1
from ops.auth_errors.normaliser.traces import Trace

StackHashing = Callable[[Trace], str]

VERSIONS: Final[Mapping[int, StackHashing]] = {v1.VERSION: v1.stack_hash}
CURRENT: Final = max(VERSIONS)


@dataclass(frozen=True)
class VersionedHash:
    version: int
    stack_hash: str


@dataclass(frozen=True)
class Grouping:
    """`own` is the trace's hash by the newest version. `follows` is the hash of a known cluster of an older version,
    which a new cluster of `own` must be linked to; None where `own` is known, or no older version knew the fault.
    """

    own: VersionedHash
    follows: VersionedHash | None


def stack_hash(trace: Trace, version: int = CURRENT) -> str:
    """64 hexadecimal digits; KeyError for a version that never was."""
    return VERSIONS[version](trace)


def grouping_of_trace(
    trace: Trace, known: Callable[[VersionedHash], bool], versions: Mapping[int, StackHashing] = VERSIONS
) -> Grouping:
    """`known` says whether a cluster has this hash; it is asked for `own` first, then for older versions downwards,
    until one is known.
    """
    newest, *older = sorted(versions, reverse=True)
    own = VersionedHash(newest, versions[newest](trace))
    if known(own):
        return Grouping(own, None)
    for version in older:
        earlier = VersionedHash(version, versions[version](trace))
        if known(earlier):
            return Grouping(own, earlier)
    return Grouping(own, None)
