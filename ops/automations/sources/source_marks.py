"""Whose turn it is to look at a source, and how far it was read.

A look is leased by elapsed time, so that of two pollers one looks; where both do, after a lease ran out, `emit` takes
each event once all the same. `mark_source_looked` and `mark_look_failed` write only where the lease is still the
caller's.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from ops.automations.models import AutomationSource
from ops.automations.transitions import CasOutcome

LEASE_SECONDS: Final = 120.0

_CLAIM: Final = """
UPDATE automation_source SET lease_owner = %s, lease_until = statement_timestamp() + make_interval(secs => %s),
       version = version + 1
 WHERE source_id IN (
    SELECT source_id FROM automation_source
     WHERE enabled AND kind = ANY(%s) AND next_look_at <= statement_timestamp()
       AND (lease_until IS NULL OR lease_until <= statement_timestamp())
     ORDER BY next_look_at LIMIT %s
       FOR UPDATE SKIP LOCKED)
RETURNING source_id
"""


@dataclass(frozen=True, slots=True)
class SourceLook:
    """One poller's turn at a source."""

    source: AutomationSource
    owner: uuid.UUID


def claim_source_looks(*, kinds: Sequence[str], limit: int = 1) -> list[SourceLook]:
    owner = uuid.uuid4()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_CLAIM, [owner, LEASE_SECONDS, list(kinds), limit])
        ids = [row[0] for row in cursor.fetchall()]
    return [SourceLook(source, owner) for source in AutomationSource.objects.filter(pk__in=ids)]


def renew_source_look(look: SourceLook) -> CasOutcome:
    """For a look of many pages."""
    return _mark_source_if_leased(look, lease_until=Now() + timedelta(seconds=LEASE_SECONDS))


def mark_source_looked(
    look: SourceLook,
    *,
    next_in_seconds: float,
    etag: str | None = None,
    state: Mapping[str, Any] | None = None,
    cursor: str | None = None,
) -> CasOutcome:
    """The look is over; what is None stays. Events were emitted before, each with its own cursor."""
    marks: dict[str, Any] = {"etag": etag, "state": None if state is None else dict(state), "cursor": cursor}
    return _mark_source_if_leased(
        look,
        lease_owner=None,
        lease_until=None,
        looked_at=Now(),
        next_look_at=Now() + timedelta(seconds=next_in_seconds),
        failures=0,
        last_error="",
        **{name: value for name, value in marks.items() if value is not None},
    )


def mark_look_failed(look: SourceLook, *, next_in_seconds: float, error: str) -> CasOutcome:
    return _mark_source_if_leased(
        look,
        lease_owner=None,
        lease_until=None,
        next_look_at=Now() + timedelta(seconds=next_in_seconds),
        failures=F("failures") + 1,
        last_error=error[:500],
    )


def _mark_source_if_leased(look: SourceLook, **values: Any) -> CasOutcome:
    rows = AutomationSource.objects.filter(pk=look.source.pk, lease_owner=look.owner)
    return CasOutcome.WON if rows.update(**values, version=F("version") + 1) else CasOutcome.LOST
