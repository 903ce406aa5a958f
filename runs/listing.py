"""A tenant's runs, newest first, a page at a time. Pages are found by key: the thousandth costs what the first did."""

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self
from uuid import UUID

from django.db.models import Q, QuerySet

from runs import selectors
from runs.models import Run
from runs.states import Status

_FORM: Final = re.compile(r"([0-9]{1,17})\.([0-9a-f]{32})")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class CursorInvalid(ValueError):  # noqa: N818  a refusal
    """Not a cursor that a page handed out."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last run of a page; the next page begins behind it."""

    created_at: datetime
    run_id: UUID

    def __str__(self) -> str:
        text = f"{(self.created_at - _EPOCH) // _MICROSECOND}.{self.run_id.hex}"
        return base64.urlsafe_b64encode(text.encode()).decode("ascii").rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Self:
        try:
            decoded = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode("ascii")
            found = _FORM.fullmatch(decoded)
            if found is None:
                raise CursorInvalid
            return cls(_EPOCH + int(found[1]) * _MICROSECOND, UUID(hex=found[2]))
        except (binascii.Error, UnicodeError, OverflowError) as error:
            raise CursorInvalid from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    status: Status | None = None
    pack_type: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class Page:
    runs: list[Run]
    next: Cursor | None


def page(*, tenant_id: str, filters: Filters, after: Cursor | None, limit: int, now: datetime) -> Page:
    """One query; one run more than asked tells whether there is another page."""
    runs = _filtered(selectors.visible_to(tenant_id), filters, now)
    if after is not None:
        runs = runs.filter(created_at__lte=after.created_at).filter(
            Q(created_at__lt=after.created_at) | Q(run_id__lt=after.run_id)
        )
    found = list(runs.order_by("-created_at", "-run_id")[: limit + 1])
    if len(found) <= limit:
        return Page(found, None)
    last = found[limit - 1]
    return Page(found[:limit], Cursor(last.created_at, last.run_id))


def _filtered(runs: QuerySet[Run], filters: Filters, now: datetime) -> QuerySet[Run]:
    """EXPIRED is what the clock says, as everywhere a tenant looks."""
    if filters.status is Status.EXPIRED:
        runs = runs.filter(retention_until__lte=now)
    elif filters.status is not None:
        runs = runs.filter(status=filters.status, retention_until__gt=now)
    if filters.pack_type is not None:
        runs = runs.filter(pack_type=filters.pack_type)
    if filters.created_from is not None:
        runs = runs.filter(created_at__gte=filters.created_from)
    if filters.created_to is not None:
        runs = runs.filter(created_at__lt=filters.created_to)
    return runs
