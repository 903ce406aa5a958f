from dpp_project.constants import RETENTION_DAYS
from dpp_project.retention import Period

PERIODS = (
    Period(
        kind="job_reports",
        days=RETENTION_DAYS,
        why="Long enough to look back over a month of recoveries; a job every 30 s writes 86,400 rows in it.",
    ),
)
