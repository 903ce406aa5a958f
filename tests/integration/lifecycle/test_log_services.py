"""A real API server logs into the folder's files, its server's own lines too; each service rotates them (LIF-07)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import urllib3

from dpp_project.process_env import ENV
from tests.gear.servers.live_api import an_api
from tests.gear.servers.live_processes import database_url
from tests.gear.servers.worker import ROOT
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


@pytest.mark.parametrize("service", ["worker", "events"])
def test_lif_07_a_host_without_an_api_rotates_its_logs_too(tmp_path: Path, aws: str, service: str) -> None:
    assert aws
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "tasks.log").write_bytes(b"x" * 1_000_000)
    environ = {
        "DATABASE_URL": database_url(),
        "SQS_ENDPOINT_URL": str(ENV.SQS_ENDPOINT_URL),
        "DPP_QUEUE_URL": ENV.DPP_QUEUE_URL,
        "DPP_SERVICE": service,
        "DPP_SQS_WAIT_SECONDS": "1",
        "DPP_METRICS_DIR": str(tmp_path / "metrics"),
        "DPP_LOG_DIR": str(logs),
        "DPP_LOG_MAX_MB": "1",
    }
    command = [sys.executable, "-m", "dpp_project.serve", service]
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | environ, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: list(logs.glob("tasks-*.log")), seconds=60, what="the rotation")
        finally:
            process.terminate()
