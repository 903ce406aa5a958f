"""What data there are: each installed app's `retention.py` declares its kinds, once each, in `KINDS`.

A kind says where it lies (tables, prefixes of a bucket, families of keys in Redis, queues, files), in which states, who
makes and who reads it, how long it stays, why, and what deletes it. From this one list come the days that the jobs
delete by, the expiry rules of the bucket (aws/provisioning.py), what the daily cleanup clears (lifecycle/) and
docs/data.md. A test reads schema, bucket and Redis, and refuses what no kind declares.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

from django.db.models import QuerySet

from dpp_project import discovery
from dpp_project.process_env import ENV

DAILY: Final = "the daily cleanup"
"""What deletes a kind that has a clearing (lifecycle/cleaning.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearing:
    """How the daily cleanup finds what of a kind may go, in bounded batches.

    Each batch is one transaction: rows are chosen in `order`, behind the last batch's, locked, and deleted with what
    hangs on them. A row that another session has in its hands is left for the next day.
    """

    rows: Callable[[datetime], QuerySet[Any]]
    """Those that are past their period, which began before this moment, and that nothing uses any more.

    A use that another session begins meanwhile must lock the row (a foreign key does), or the database must refuse it.
    """
    order: tuple[str, ...]
    """Columns by which batches follow each other: an index begins with the first, the last is the primary key."""
    along: tuple[str, ...] = ()
    """What is deleted with a row: `table.column`, where the column holds the row's key. So many that each is few."""
    instead: Callable[[Sequence[Any]], int] | None = None
    """Given a batch's keys, in place of deleting: to empty a column, say. Answers the bytes it freed. `rows` must not
    choose the same rows again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataKind:
    name: str
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """`table.column` of another kind's table: what is emptied before its row goes."""
    results: tuple[str, ...] = ()
    """Prefixes in the bucket of results (DPP_BUCKET)."""
    archives: tuple[str, ...] = ()
    """Prefixes in the bucket of archives (DPP_ARCHIVE_BUCKET)."""
    redis: tuple[str, ...] = ()
    """Names of keys, `*` for any text."""
    queues: tuple[str, ...] = ()
    """Variables that name a queue of SQS."""
    files: tuple[str, ...] = ()
    """Paths, `$NAME` for what a variable says, `*` for any text."""
    states: str
    made_by: str
    read_by: str
    days: int | None = None
    setting: str = ""
    """The variable that says the days."""
    until: str
    """Of a kind with days, from when they count (`after it ended`); of another, how long it stays (`for good`)."""
    why: str
    deleted_by: str
    clearing: Clearing | None = None

    def __post_init__(self) -> None:
        if not places_of_kind(self):
            raise ValueError(f"{self.name}: say where it lies")
        if self.days is not None and self.setting:
            raise ValueError(f"{self.name}: its days are a number or a setting, not both")
        if self.days is not None and self.days < 1:
            raise ValueError(f"{self.name}: a period is one day at least")
        if (self.clearing is not None) != (self.deleted_by == DAILY):
            raise ValueError(f"{self.name}: what the daily cleanup deletes has a clearing, and nothing else has")
        if self.clearing is not None and self.period_days is None:
            raise ValueError(f"{self.name}: what the daily cleanup deletes has days")

    @property
    def period_days(self) -> int | None:
        return int(getattr(ENV, self.setting)) if self.setting else self.days


@cache
def data_kinds() -> Mapping[str, DataKind]:
    """Every declared kind by its name, an app's in the order it declares them; no place belongs to two."""
    found: dict[str, DataKind] = {}
    owners: dict[tuple[str, str], str] = {}
    for module in discovery.discovered_modules("retention"):
        for kind in getattr(module, "KINDS", ()):  # this very module has none
            if kind.name in found:
                raise ValueError(f"two kinds of data are called {kind.name}")
            found[kind.name] = kind
            for place in places_of_kind(kind):
                if (other := owners.setdefault(place, kind.name)) != kind.name:
                    raise ValueError(f"{place[0]} {place[1]} is declared by {other} and by {kind.name}")
    return found


PLACES: Final = ("tables", "columns", "results", "archives", "redis", "queues", "files")


def places_of_kind(kind: DataKind) -> list[tuple[str, str]]:
    return [(where, name) for where in PLACES for name in getattr(kind, where)]


def days_of(name: str) -> int:
    days = data_kinds()[name].period_days
    if days is None:
        raise ValueError(f"{name} has no period")
    return days


def retention_cutoff(name: str, *, now: datetime) -> datetime:
    """What is older than this is past its period."""
    return now - timedelta(days=days_of(name))


def expiring_prefixes() -> dict[str, int]:
    """Prefixes of the bucket of results, with the days after which the bucket itself deletes what lies below."""
    found = {
        prefix: kind.period_days
        for kind in data_kinds().values()
        for prefix in kind.results
        if kind.period_days is not None
    }
    return dict(sorted(found.items()))


def kinds_of_key(key: str) -> list[str]:
    """Which kinds a key in Redis belongs to: one, where all is declared as it should be."""
    return [kind.name for kind in data_kinds().values() if any(fnmatchcase(key, pattern) for pattern in kind.redis)]


def kinds_of_object(key: str, *, bucket: str) -> list[str]:
    """Which kinds an object belongs to; `bucket` is `results` or `archives`."""
    return [kind.name for kind in data_kinds().values() if any(key.startswith(one) for one in getattr(kind, bucket))]
