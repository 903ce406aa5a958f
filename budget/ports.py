"""What budget must know of runs, named here because runs stand above it.

`runs` registers its own implementation when Django starts. Without that app there are no open runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run whose money is not ended in the database."""

    tenant_id: str
    run_id: str
    reserved_micros: int
    created_at_ms: int
    reserved: bool
    """False at money NONE: a hold may or may not have been made; the database does not count it."""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A committed run: what its receipt says."""

    tenant_id: str
    run_id: str
    charge_micros: int
    refund_micros: int


class OpenRuns(Protocol):
    """Each call runs inside the caller's transaction and sees its snapshot; `tenant_id=None` means every tenant."""

    def fence(self, *, tenant_id: str | None) -> int:
        """Raise the version of every run that is CLAIMED or at money NONE, so that no step under way can commit."""

    def open(self, *, tenant_id: str | None) -> Iterator[OpenRun]:
        """Every run not COMMITTED whose money is NONE or RESERVED."""

    def ended_since(self, *, tenant_id: str | None, since: datetime) -> Iterator[EndedRun]:
        """Every run COMMITTED at or after `since`."""


class NoRuns:
    """A platform that sells nothing yet."""

    def fence(self, *, tenant_id: str | None) -> int:
        del tenant_id
        return 0

    def open(self, *, tenant_id: str | None) -> Iterator[OpenRun]:
        del tenant_id
        return iter(())

    def ended_since(self, *, tenant_id: str | None, since: datetime) -> Iterator[EndedRun]:
        del tenant_id, since
        return iter(())


_registered: list[OpenRuns] = []


def register(open_runs: OpenRuns) -> None:
    _registered[:] = [open_runs]


def open_runs() -> OpenRuns:
    if _registered:
        return _registered[0]
    if apps.is_installed("runs"):
        raise ImproperlyConfigured("runs has not registered its OpenRuns: a rebuild would forget every hold")
    return NoRuns()
