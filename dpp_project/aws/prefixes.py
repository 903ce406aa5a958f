"""How our keys in the bucket begin. The bucket's own lifecycle rules expire what lies below EXPIRING."""

from typing import Final

RESULTS: Final = "dpp/"
UPLOADS: Final = "uploads/"
REPORTS: Final = "reports/ops/tickets/reaper/"
REPORT_SNAPSHOTS: Final = f"{REPORTS}snapshots/"
"""The latest report lies beside them, and stays."""

EXPIRING: Final = (RESULTS, UPLOADS, REPORT_SNAPSHOTS)
