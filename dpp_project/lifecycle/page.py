"""docs/data.md, written from the registry: `manage.py data list --page`."""

from collections.abc import Iterator
from typing import Final

from dpp_project import retention
from dpp_project.env import Environment
from dpp_project.retention import DataKind

PLACES: Final = {
    "tables": "table {}",
    "columns": "column {}",
    "results": "`DPP_BUCKET`: {}",
    "archives": "`DPP_ARCHIVE_BUCKET`: {}",
    "redis": "Redis: {}",
    "queues": "SQS: {}",
    "files": "{}",
}
HEAD: Final = """# Data

Every table, prefix of a bucket, family of keys in Redis, queue, folder and file of the platform: what it holds, how
long it stays and what deletes it. This page is written from what each app declares in its `retention.py`
(`manage.py data list --page`); tests compare both, and refuse a table, an object or a key that none declares.
[operations.md](operations.md#data) says what to do when something does not go, or a disk fills.

| data | where | states | made by | read by | stays | why | deleted by |
|---|---|---|---|---|---|---|---|
"""


def lifecycle_page() -> str:
    return HEAD + "".join(f"| {' | '.join(_cells(kind))} |\n" for _, kind in sorted(retention.data_kinds().items()))


def _cells(kind: DataKind) -> Iterator[str]:
    yield kind.name
    yield "; ".join(_places(kind))
    yield kind.states
    yield kind.made_by
    yield kind.read_by
    yield how_long_data_stay(kind)
    yield kind.why
    yield kind.deleted_by


def _places(kind: DataKind) -> Iterator[str]:
    for where, form in PLACES.items():
        if names := getattr(kind, where):
            yield form.format(", ".join(f"`{name}`" if name else "all of it" for name in names))


def how_long_data_stay(kind: DataKind) -> str:
    """With a setting by its name and default, since a page knows no environment."""
    if kind.setting:
        default = Environment.model_fields[kind.setting].default
        return f"{_days(default)} (`{kind.setting}`) {kind.until}"
    return kind.until if kind.days is None else f"{_days(kind.days)} {kind.until}"


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"
