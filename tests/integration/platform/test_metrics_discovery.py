"""Every documented metric is on the page of a process that has no console (DPP-74)."""

import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from dpp_project import clock
from dpp_project.jobs.models import JobReport
from tests.gear.servers.live_processes import database_url

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTED = re.compile(r"^\| `(dpp_\w+)`", re.MULTILINE)
GIVEN = re.compile(r"^# TYPE (dpp_\w+?)(?<!_created) ", re.MULTILINE)
SCRAPE = """
import sys
import django
django.setup()
from dpp_project.observe import metrics
page = metrics.render_metrics().decode()
print([name for name in sys.modules if name.endswith(".dashboard") and name != "dpp_project.console.dashboard"])
print(page)
"""


@pytest.mark.contract("DPP-74")
@pytest.mark.django_db(transaction=True)
def test_dpp_74_every_metric_is_given_by_a_process_that_imported_no_dashboard(aws: str) -> None:
    now = clock.now()
    JobReport.objects.create(job="money_verify", started_at=now - timedelta(seconds=1), ended_at=now, host="h", pid=1)
    scraped = subprocess.run(
        [sys.executable, "-c", SCRAPE],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "dpp_project.settings"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    dashboards, _, page = scraped.partition("\n")
    assert dashboards == "[]"
    assert set(GIVEN.findall(page)) == set(
        DOCUMENTED.findall((ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"))
    )
    sources = re.findall(r'^dpp_collector_failed\{name="(\w+)"\} (\S+)', page, re.MULTILINE)
    known = (
        "alarms",
        "auth_errors",
        "automations",
        "budget",
        "cleanup",
        "disks",
        "events",
        "events_queues",
        "jobs",
        "processes",
        "queues",
        "runs",
        "tickets",
        "webhooks",
        "workspaces",
    )
    assert sources == [(name, "0.0") for name in known]
