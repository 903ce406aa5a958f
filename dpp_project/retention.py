"""How long each kind of data is kept: each installed app's `retention.py` declares it in `PERIODS`.

The period is declared where the data are; the job that deletes them asks here, so that one list answers what is kept,
for how long and why.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from dpp_project import discovery


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    kind: str
    days: int
    why: str

    def __post_init__(self) -> None:
        if self.days < 1:
            raise ValueError(f"{self.kind}: a period is one day at least")


@cache
def periods() -> Mapping[str, Period]:
    found: dict[str, Period] = {}
    for module in discovery.modules("retention"):
        for period in getattr(module, "PERIODS", ()):  # this very module has none
            if period.kind in found:
                raise ValueError(f"two periods are declared for {period.kind}")
            found[period.kind] = period
    return dict(sorted(found.items()))


def cutoff(kind: str, *, now: datetime) -> datetime:
    """What is older than this is past its period."""
    return now - timedelta(days=periods()[kind].days)
