"""The latest date of each tenant that a process has met: it never goes back, and what is remembered is bounded."""

from datetime import date

import pytest

from runs.submit.spend_dates import LatestDates

pytestmark = pytest.mark.contract("CAP-05")

DAY, NEXT = date(2026, 11, 19), date(2026, 11, 20)


def test_cap_05_the_date_a_process_has_met_never_goes_back() -> None:
    latest = LatestDates()
    for met in (NEXT, DAY):
        latest.note("t_acme", met)
    assert (latest.of("t_acme"), latest.of("t_other")) == (NEXT, None)


def test_cap_05_so_many_tenants_are_remembered_and_the_longest_unmet_is_forgotten() -> None:
    latest = LatestDates(limit=2)
    for tenant_id in ("t_a", "t_b", "t_a", "t_c"):
        latest.note(tenant_id, DAY)
    assert [latest.of(tenant_id) for tenant_id in ("t_a", "t_b", "t_c")] == [DAY, None, DAY]
