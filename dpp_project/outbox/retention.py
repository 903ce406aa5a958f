from dpp_project.constants import RETENTION_DAYS
from dpp_project.retention import Period

PERIODS = (
    Period(
        kind="events",
        days=RETENTION_DAYS,
        why="After handling; SQS keeps a message for 14, so that one that comes late still finds its ledger row.",
    ),
    Period(
        kind="event_dead_letters",
        days=RETENTION_DAYS,
        why="As long as the event they were for; after that there is nothing left to send again.",
    ),
)
