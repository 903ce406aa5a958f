"""What several processes of one API count is one count, whichever of them is asked (DPP-72, HRD-11)."""

import re
from pathlib import Path

import pytest

from tests.gear.servers.live_api import Api, a_served_api
from tests.gear.waiting import wait_until
from tests.proving import proofs

REQUESTS = 60
COUNTED = re.compile(rb'(?m)^dpp_http_request_seconds_count\{method="GET",route="v1/whoami",status="4xx"\} ([0-9.]+)$')


def count(api: Api) -> float | None:
    """As the process says that happens to take this connection."""
    page = api.ask(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").body
    found = COUNTED.search(page)
    return float(found.group(1)) if found else None


@pytest.mark.slow
@pytest.mark.contract("DPP-72", "HRD-11")
@pytest.mark.django_db(transaction=True)
def test_hrd_11_every_process_tells_the_counts_of_all(tmp_path: Path) -> None:
    with a_served_api(tmp_path, processes=2) as api:
        for _ in range(REQUESTS):
            assert api.ask(b"GET /v1/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").status == 401
        counting = {path.stem.rpartition("_")[2] for path in tmp_path.glob("metrics/*/histogram_*.db")}
        assert len(counting) == 2, "the kernel dealt the connections out to both"
        said: list[float | None] = []

        def both_say_it() -> bool:
            """A page is made once a second, so that an early one may say less; never may one say less than before."""
            said.append(count(api))
            return said[-20:] == [REQUESTS] * 20

        wait_until(both_say_it, seconds=20, what="twenty connections in a row to be told the same")
        known = [one for one in said if one is not None]
        assert known == sorted(known)
    proofs.report(cases=1)
