from dpp_project.constants import RETENTION_DAYS
from dpp_project.retention import Period
from runs.timing import TOMBSTONE_DAYS

PERIODS = (
    Period(
        kind="runs",
        days=RETENTION_DAYS,
        why="Inputs, result, pointer and history of a run; what stays is a tombstone with its money.",
    ),
    Period(
        kind="uploads",
        days=RETENTION_DAYS,
        why="Files for runs to read, as long as a run that names them; room that no file came into goes in an hour.",
    ),
    Period(
        kind="run_tombstones",
        days=RETENTION_DAYS + TOMBSTONE_DAYS,
        why="For a year after the retention the owner is answered 410; the ledger keeps the money for ever.",
    ),
)
