"""Which jobs there are: each installed app's `jobs.py` declares them in `JOBS`."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Final, Protocol

from dpp_project import discovery

EVERYTHING: Final = sys.maxsize
"""The limit of a pass that goes on until nothing is due or its deadline comes."""

PASS_SHARE: Final = 0.8
"""How much of its interval a pass may take: one that took all of it would still run when the next one is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassReport:
    """What one run of a job saw and did. `detail` is JSON: ids and counts, never what a caller sent."""

    seen: int = 0
    changed: int = 0
    errors: int = 0
    detail: Mapping[str, object] = field(default_factory=dict)


class RunOnce(Protocol):
    """One pass over what is due, at most `limit` of it, and no longer than dpp_project.jobs.deadline allows.

    Safe beside itself, after itself and late: it selects by the state it finds. What a process remembers of earlier
    passes may change the order, never the choice.
    """

    def __call__(self, *, now: datetime, limit: int) -> PassReport: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    name: str
    summary: str
    every_seconds: int
    run_once: RunOnce
    limit: int = EVERYTHING
    preview: RunOnce | None = None
    """The same pass with `changed` as what would change; nothing is written. It is what --dry-run runs."""

    def __post_init__(self) -> None:
        if self.every_seconds < 1 or self.limit < 1:
            raise ValueError(f"job {self.name}: every_seconds and limit must be positive")

    @property
    def deadline_seconds(self) -> float:
        return self.every_seconds * PASS_SHARE


class UnknownJob(LookupError):  # noqa: N818  named for the finding
    """No app declares this name."""


@cache
def declared_jobs() -> Mapping[str, Job]:
    """Every declared job by its name, in the order of their names."""
    found: dict[str, Job] = {}
    for module in discovery.discovered_modules("jobs"):
        for job in getattr(module, "JOBS", ()):
            if job.name in found:
                raise ValueError(f"two jobs are called {job.name}")
            found[job.name] = job
    return dict(sorted(found.items()))


def job_named(name: str) -> Job:
    try:
        return declared_jobs()[name]
    except KeyError:
        raise UnknownJob(f"No job is called {name}. There are: {', '.join(declared_jobs())}.") from None
