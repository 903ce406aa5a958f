"""How our keys in the bucket begin. Which of them the bucket expires by itself is declared (retention.py)."""

from typing import Final

RESULTS: Final = "dpp/"
UPLOADS: Final = "uploads/"
REPORTS: Final = "reports/ops/tickets/reaper/"
REPORT_SNAPSHOTS: Final = f"{REPORTS}snapshots/"
REPORT_LATEST: Final = f"{REPORTS}latest/"
"""It lies beside the snapshots, and stays."""
