"""What the heartbeats say: who is alive, and who fell silent."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now

from dpp_project.heartbeats.models import ProcessHeartbeat
from dpp_project.heartbeats.pulse import STALE_SECONDS


@dataclass(frozen=True, slots=True)
class Process:
    row: ProcessHeartbeat
    is_stale: bool


def known() -> list[Process]:
    """Each known process, by the database's clock."""
    silent = ExpressionWrapper(Q(beat_at__lt=Now() - timedelta(seconds=STALE_SECONDS)), output_field=BooleanField())
    rows = ProcessHeartbeat.objects.annotate(silent=silent).order_by("service", "host", "pid")
    return [Process(row, bool(row.silent)) for row in rows]


def counts() -> dict[str, dict[str, int]]:
    """By service, how many are alive and how many are stale."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: {"alive": 0, "stale": 0})
    for process in known():
        found[process.row.service]["stale" if process.is_stale else "alive"] += 1
    return dict(found)
