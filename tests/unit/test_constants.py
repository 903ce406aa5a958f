"""The platform's fixed numbers are exactly those of the specification, and stand in one place (DPP-79)."""

import re
from pathlib import Path

from dpp_project import constants
from runs.states import MoneyState, Status
from tests.gear.source import PRODUCT, REPOSITORY, files, of_product, text

SPECIFIED = {
    "RETENTION_DAYS": 30,
    "PRESIGNED_URL_TTL_SECONDS": 600,
    "LEASE_TTL_SECONDS": 120,
    "LEASE_HEARTBEAT_INTERVAL_SECONDS": 30,
    "REAPER_INTERVAL_SECONDS": 30,
    "IDEM_LOCK_TTL_SECONDS": 5,
    "IDEMPOTENCY_MAPPING_TTL_SECONDS": 2_592_000,
    "RESERVATION_TTL_SECONDS": 3_600,
    "POLL_RECOMMENDED_INTERVAL_MS": 1_500,
    "TIMEBOX_SECONDS_DEFAULT": 90,
    "TIMEBOX_SECONDS_MAX": 90,
    "MINIMUM_FEE_FLOOR_MICROS": 5_000,
    "MINIMUM_FEE_PERCENT": 2,
    "MINIMUM_FEE_CAP_MICROS": 100_000,
    "QUEUE_VISIBILITY_SECONDS": 120,
    "QUEUE_MAX_RECEIVES": 3,
    "MULTIPART_ABORT_DAYS": 7,
    "RATE_LIMIT_PER_MINUTE_DEFAULT": 60,
    "RATE_LIMIT_RETRY_AFTER_SECONDS": 30,
    "WORKER_GRACE_SECONDS": 110,
}


def test_dpp_79_each_constant_has_its_specified_value() -> None:
    assert {name: getattr(constants, name) for name in SPECIFIED} == SPECIFIED


def test_dpp_79_the_state_machine_has_the_specified_words() -> None:
    assert {status.value for status in Status} == {"QUEUED", "PROCESSING", "COMPLETED", "FAILED", "EXPIRED"}
    assert {state.value for state in MoneyState} == {"NONE", "RESERVED", "SETTLED", "REFUNDED", "DISPUTED"}


def test_dpp_79_no_other_module_gives_a_constant_a_value() -> None:
    named = re.compile(rf"^({'|'.join(SPECIFIED)})\b[^=\n]*=(?!=)", re.MULTILINE)
    elsewhere = [
        str(path) for path in of_product() if path != Path("dpp_project/constants.py") and named.search(text(path))
    ]
    assert elsewhere == []


def test_every_package_of_ours_is_the_products_or_for_development() -> None:
    """A new package that nobody adds to the import rules would be read by no rule at all."""
    packages = {path.parts[0] for path in files() if len(path.parts) == 2 and path.name == "__init__.py"}
    assert packages == {*PRODUCT, "bench", "models", "tests"}


def test_dpp_79_what_the_specification_wanted_for_one_tool_is_left_out() -> None:
    assert not (REPOSITORY / "CLAUDE.md").exists()
    assert not (REPOSITORY / ".claude").exists()
