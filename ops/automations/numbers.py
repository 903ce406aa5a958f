"""`task-20261119-001`, `msg-20261119-001`: for people, counted anew each date of DPP_REPORT_TIME_ZONE.

A number is given in the transaction that makes its row: rolled back, it is given again, and none is left out. Two that
give one at once take turns at the date's row. The day goes by the clock of the process that asks; a clock set back goes
on counting where that date had stopped.
"""

from datetime import date
from typing import Final
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection

from dpp_project import clock

TASK: Final = "task"
MESSAGE: Final = "msg"

_NEXT: Final = """
INSERT INTO automation_number AS given (kind, day, last) VALUES (%s, %s, 1)
    ON CONFLICT (kind, day) DO UPDATE SET last = given.last + 1
RETURNING last
"""


def automations_today() -> date:
    return clock.now().astimezone(ZoneInfo(settings.REPORT_TIME_ZONE)).date()


def next_number(kind: str) -> str:
    """In the caller's transaction."""
    day = automations_today()
    with connection.cursor() as cursor:
        cursor.execute(_NEXT, [kind, day])
        (last,) = cursor.fetchone()
    return f"{kind}-{day:%Y%m%d}-{last:03d}"
