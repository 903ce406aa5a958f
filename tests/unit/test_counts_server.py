"""Counts of a host without an API are served by a page of their own (DPP-74, DPP-86)."""

import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from dpp_project.observe import counts_server

COUNTING = "from prometheus_client import Counter\nCounter('dpp_seen_total', 'Seen.', ['what']).labels('a').inc(3)\n"


@pytest.mark.contract("DPP-74", "DPP-86")
def test_dpp_74_what_the_services_of_a_pod_count_is_added_up_on_its_page(tmp_path: Path) -> None:
    for part in ("worker-1", "worker-2"):
        (tmp_path / part).mkdir()
        subprocess.run(
            [sys.executable, "-c", COUNTING], env={"PROMETHEUS_MULTIPROC_DIR": str(tmp_path / part)}, check=True
        )
    port = counts_server.serve_counts(tmp_path, port=0, address="127.0.0.1")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    assert 'dpp_seen_total{what="a"} 6.0' in page


def test_it_needs_no_settings_and_no_service() -> None:
    heavy = "[name for name in ('django', 'celery', 'boto3') if name in sys.modules]"
    loaded = f"import sys, dpp_project.observe.counts_server; print({heavy})"
    done = subprocess.run([sys.executable, "-c", loaded], env={}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
