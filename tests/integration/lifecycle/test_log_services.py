"""A real API server logs into the folder's files, its server's own lines too (LIF-07)."""

import json
from pathlib import Path

import pytest
import urllib3

from tests.gear.servers.live_api import an_api
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.contract("LIF-07"), pytest.mark.django_db(transaction=True)]


def test_lif_07_a_real_api_logs_into_the_folder(tmp_path: Path, aws: str) -> None:
    assert aws
    logs = tmp_path / "logs"
    with an_api(tmp_path, environ={"DPP_LOG_DIR": str(logs)}) as api:
        assert urllib3.request("GET", f"http://127.0.0.1:{api.port}/v1/packs").status in {200, 401}
        system = logs / "system.log"
        wait_until(lambda: system.exists() and "/v1/packs" in system.read_text(encoding="utf-8"), what="its line")
        wait_until((logs / ".rotator.lock").exists, what="the rotator")
    lines = [json.loads(line) for line in system.read_text(encoding="utf-8").splitlines()]
    assert {line["service"] for line in lines} == {"api"}
