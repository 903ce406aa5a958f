"""What the heartbeats say: who is alive, and who fell silent."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now

from dpp_project.heartbeats.models import ProcessHeartbeat
from dpp_project.heartbeats.pulse import STALE_SECONDS, STILL_SECONDS


@dataclass(frozen=True, slots=True)
class Process:
    row: ProcessHeartbeat
    is_stale: bool
    stands_still: bool = False
    """It lives, and its loop has not turned for STILL_SECONDS."""

    @property
    def state(self) -> str:
        return "stale" if self.is_stale else "stands still" if self.stands_still else "alive"


def known_processes() -> list[Process]:
    """Each known process, by the database's clock."""
    silent = ExpressionWrapper(Q(beat_at__lt=Now() - timedelta(seconds=STALE_SECONDS)), output_field=BooleanField())
    still = ExpressionWrapper(Q(turned_at__lt=Now() - timedelta(seconds=STILL_SECONDS)), output_field=BooleanField())
    rows = ProcessHeartbeat.objects.annotate(silent=silent, still=still).order_by("service", "host", "pid")
    return [Process(row, bool(row.silent), bool(row.still) and not row.silent) for row in rows]


def standing_still() -> dict[str, int]:
    """By service, how many live and get nothing done; they count as alive, too."""
    found: dict[str, int] = defaultdict(int)
    for process in known_processes():
        found[process.row.service] += process.stands_still
    return dict(found)


def process_counts() -> dict[str, dict[str, int]]:
    """By service, how many are alive and how many are stale."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: {"alive": 0, "stale": 0})
    for process in known_processes():
        found[process.row.service]["stale" if process.is_stale else "alive"] += 1
    return dict(found)
