"""The trail as it is read: newest first, page by page."""

from dataclasses import dataclass

from dpp_project.audit.models import AuditEntry


@dataclass(frozen=True, slots=True)
class TrailPage:
    entries: list[AuditEntry]
    next: int | None
    """The number the next page begins below."""


def read_trail_of(tenant_id: str, *, below: int | None, limit: int) -> TrailPage:
    """What concerns a tenant; one more than asked for tells whether there is a next page."""
    chosen = AuditEntry.objects.filter(tenant_id=tenant_id)
    if below is not None:
        chosen = chosen.filter(pk__lt=below)
    found = list(chosen.order_by("-pk")[: limit + 1])
    shown = found[:limit]
    return TrailPage(shown, shown[-1].pk if len(found) > limit else None)
