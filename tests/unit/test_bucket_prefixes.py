"""Where our objects lie in the bucket, and which of them the bucket expires by itself."""

import re
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dpp_project import retention
from dpp_project.aws import prefixes, provisioning
from ops.tickets import reports
from runs.bucket import storage

AT = datetime(2026, 2, 28, 23, 59, tzinfo=UTC)
ID = uuid.UUID("01900000-0000-7000-8000-000000000001")
ENVELOPE = storage.envelope_key(tenant_id="t_acme", run_id=ID, created_at=AT)
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.contract("DPP-23", "DPP-76")
@pytest.mark.parametrize(
    "key",
    [
        ENVELOPE,
        storage.artifact_key(ENVELOPE, "page.txt"),
        storage.upload_key(tenant_id="t_acme", upload_id=ID, filename="a.png", at=AT),
        reports.snapshot_path(AT),
    ],
)
def test_one_rule_of_the_bucket_expires_each_key_that_has_a_retention(key: str) -> None:
    expiring = [rule["Filter"]["Prefix"] for rule in provisioning._expiring()]
    assert len([prefix for prefix in expiring if key.startswith(prefix)]) == 1


@pytest.mark.contract("DPP-76")
def test_no_rule_of_the_bucket_expires_the_latest_report() -> None:
    assert not reports.LATEST_PATH.startswith(tuple(retention.expiring_prefixes()))


def test_no_module_types_a_prefix_again() -> None:
    """As a text of its own or before a field of an f-string; examples of whole keys and names of templates may."""
    named = (prefixes.RESULTS, prefixes.UPLOADS, prefixes.REPORTS, prefixes.REPORT_SNAPSHOTS)
    typed = re.compile(rf"""["']({"|".join(named)})(["'{{])""")
    found = [
        path.relative_to(ROOT).as_posix()
        for app in ("dpp_project", "tenants", "budget", "runs", "reaper", "ops")
        for path in (ROOT / app).rglob("*.py")
        if typed.search(path.read_text(encoding="utf-8"))
    ]
    # The bridge runs where nothing of the platform is installed.
    assert set(found) <= {"dpp_project/aws/prefixes.py", "runs/mcp/bridge.py"}
