"""Health, metrics, the OpenAPI document and the pages around it (DPP-71, DPP-72, DPP-74)."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.contrib.staticfiles import finders
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from dpp_project import settings
from dpp_project.aws import clients
from dpp_project.observe import metrics
from dpp_project.pages import health, metrics_page
from dpp_project.reasons import REASONS
from tests.gear.builders.tenants import a_tenant

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def forget_the_last_probing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_latest", health._Latest())
    monkeypatch.setattr(metrics, "_latest", metrics._LatestPage())


@pytest.mark.contract("DPP-72")
def test_dpp_72_healthz_says_that_the_process_lives(client: Client) -> None:
    response = client.get("/healthz")
    assert (response.status_code, json.loads(response.content)) == (200, {"status": "alive"})


@pytest.mark.contract("DPP-72")
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("valkey")
def test_dpp_72_readyz_gives_each_dependency_with_state_and_milliseconds(client: Client, aws: Any) -> None:
    response = client.get("/readyz")
    body = json.loads(response.content)
    assert response.status_code == 200, body
    assert set(body["dependencies"]) == {"database", "migrations", "redis", "ledger", "s3", "sqs"}
    assert body["degraded"] == []
    for result in body["dependencies"].values():
        assert result["state"] == "up"
        assert 0 <= result["ms"] < 3_000


@pytest.mark.django_db
@pytest.mark.contract("DPP-72")
@pytest.mark.parametrize("name", ["database", "migrations", "redis"])
def test_dpp_72_readyz_names_what_is_away(client: Client, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def refuses() -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(health, "PROBES", dict.fromkeys(health.PROBES, lambda: None) | {name: refuses})
    response = client.get("/readyz")
    body = json.loads(response.content)
    assert response.status_code == 503
    assert response.headers["Content-Type"] == "application/problem+json"
    assert int(response.headers["Retry-After"]) > 0
    assert body["reason_code"] == "SERVICE_UNAVAILABLE"
    assert body["detail"] == f"Not ready: {name}."
    assert body["dependencies"][name]["state"] == "down"
    assert body["dependencies"][name]["error"] == "ConnectionRefusedError"
    assert [other for other, result in body["dependencies"].items() if result["state"] == "up"] == [
        other for other in health.PROBES if other != name
    ]


@pytest.mark.django_db
@pytest.mark.contract("DPP-72", "HRD-26")
@pytest.mark.parametrize("name", ["s3", "sqs"])
def test_dpp_72_a_service_that_most_requests_do_not_need_leaves_it_ready(
    client: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuses() -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(health, "PROBES", dict.fromkeys(health.PROBES, lambda: None) | {name: refuses})
    response = client.get("/readyz")
    body = json.loads(response.content)
    assert (response.status_code, body["status"], body["degraded"]) == (200, "ready", [name])
    assert (body["dependencies"][name]["state"], body["dependencies"]["redis"]["state"]) == ("down", "up")


@pytest.mark.contract("DPP-72", "HRD-24")
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("valkey")
def test_dpp_72_a_database_behind_the_code_is_not_ready_and_the_cure_is_named(client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'runs' RETURNING app, name, applied")
        rows = cursor.fetchall()
    try:
        response = client.get("/readyz")
    finally:
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, %s)", rows)
    body = json.loads(response.content)
    newest = max(name for _, name, _ in rows)
    assert (response.status_code, body["detail"]) == (503, "Not ready: migrations.")
    assert body["dependencies"]["migrations"]["error"] == f"run `manage.py migrate`: runs.{newest} not applied"
    assert body["dependencies"]["database"]["state"] == "up"


@pytest.mark.contract("DPP-72", "HRD-24")
def test_dpp_72_an_empty_database_is_not_ready_and_a_command_says_so_in_one_line() -> None:
    name = f"empty_{os.getpid()}"
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as postgres:
        postgres.execute(f'CREATE DATABASE "{name}"')
        try:
            environ = os.environ | {"DATABASE_URL": os.environ["DATABASE_URL"].rsplit("/", 1)[0] + f"/{name}"}
            probed = run_python(environ, "-c", _PROBING)
            told = run_python(environ, "manage.py", "money_verify")
        finally:
            postgres.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    assert probed.stdout.strip() == "run `manage.py migrate`: the database is empty"
    assert (told.returncode, told.stdout) == (3, "")
    assert told.stderr.strip() == "CommandError: the database is not migrated; run `manage.py migrate`"


@pytest.mark.django_db
def test_dpp_72_a_command_that_lacks_a_function_says_so_in_one_line_too() -> None:
    tenant_id = a_tenant().tenant_id
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION known_zone(text)")  # until the test's transaction is rolled back
    with pytest.raises(CommandError, match=r"^the database is not migrated; run `manage\.py migrate`$") as told:
        call_command("caps", "show", tenant_id)
    assert told.value.returncode == 3


_PROBING = """
import django
django.setup()
from dpp_project.pages import health, metrics_page
print(health.probe_all()["migrations"]["error"])
"""


def run_python(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env=environ, cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.contract("DPP-72")
def test_dpp_72_many_who_ask_at_once_cause_one_probing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    probed: list[str] = []
    monkeypatch.setattr(health, "PROBES", {"redis": lambda: probed.append("redis")})
    for _ in range(20):
        assert client.get("/readyz").status_code == 200
    assert probed == ["redis"]


@pytest.mark.contract("DPP-72")
def test_dpp_72_the_log_has_a_line_for_each_change_and_none_for_each_question(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter([True, False, False, False, True, True])

    def redis_answers() -> None:
        if not next(answers):
            raise ConnectionRefusedError

    monkeypatch.setattr(health, "PROBES", {"redis": redis_answers})
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.0)
    assert [client.get("/readyz").status_code for _ in range(6)] == [200, 503, 503, 503, 200, 200]
    said: list[Any] = [record.msg for record in caplog.records if record.name == "dpp.health"]
    assert [(line["event"], line.get("down")) for line in said] == [("not ready", ["redis"]), ("ready again", None)]


_COUNTING = """
import os
import django
django.setup()
from runs import metrics
for seconds in (0.2, 3.0):
    metrics.QUEUE_WAIT_SECONDS.observe(seconds)
metrics.STARTS_LOST.inc()
os.kill(os.getpid(), 9)
"""


@pytest.mark.contract("DPP-74")
def test_dpp_74_the_page_adds_up_all_services_and_keeps_what_killed_processes_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, reaper = (metrics.own_folder(tmp_path, part) for part in ("worker", "beat"))
    for folder in (worker, worker, reaper):
        environ = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(folder)}
        done = subprocess.run([sys.executable, "-c", _COUNTING], env=environ, cwd=ROOT, check=False)
        assert done.returncode == -signal.SIGKILL
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(metrics.own_folder(tmp_path, "api")))
    assert counted() == {"starts lost": 3.0, "waits": 6.0, "waits within a second": 3.0}
    assert metrics.own_folder(tmp_path, "worker") == worker  # it starts again, at nothing
    assert counted() == {"starts lost": 1.0, "waits": 2.0, "waits within a second": 1.0}


@pytest.mark.contract("DPP-74")
def test_dpp_74_a_service_that_starts_clears_up_after_the_dead_and_leaves_the_living(tmp_path: Path) -> None:
    host = socket.gethostname()
    with subprocess.Popen(["sleep", "60"]) as living:
        dead = subprocess.Popen(["true"])
        dead.wait()
        for name in (f"worker-{host}-{living.pid}", f"worker-{host}-{dead.pid}", f"beat-{host}-{dead.pid}"):
            (tmp_path / name).mkdir()
        metrics.own_folder(tmp_path, "worker")
        living.kill()
    assert {folder.name for folder in tmp_path.iterdir()} == {
        f"worker-{host}-{os.getpid()}",
        f"worker-{host}-{living.pid}",
        f"beat-{host}-{dead.pid}",
    }


def counted() -> dict[str, float]:
    lines = dict(line.rsplit(" ", 1) for line in metrics.render_metrics().decode().splitlines() if line[:1] != "#")
    return {
        "starts lost": float(lines["dpp_run_starts_lost_total"]),
        "waits": float(lines["dpp_run_queue_wait_seconds_count"]),
        "waits within a second": float(lines['dpp_run_queue_wait_seconds_bucket{le="1.0"}']),
    }


@pytest.mark.contract("DPP-74")
@pytest.mark.django_db
def test_dpp_74_metrics_count_requests_and_survive_a_collector_that_fails(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Iterator[Any]:
        raise ConnectionError

    monkeypatch.setattr(metrics, "_collectors", {"broken": broken})
    client.get("/healthz")
    response = client.get("/metrics")
    text = response.content.decode()
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/plain")
    assert re.search(
        r'^dpp_http_request_seconds_count\{method="GET",route="healthz",status="2xx"\} \d', text, re.MULTILINE
    )
    assert 'dpp_collector_failed{name="broken"} 1.0' in text


@pytest.mark.contract("DPP-74")
@pytest.mark.django_db
def test_dpp_74_metrics_ask_for_their_token_where_one_is_set(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = settings.ENV.model_copy(update={"DPP_METRICS_TOKEN": "0123456789abcdef"})
    monkeypatch.setattr(metrics_page, "ENV", locked)
    for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer 0123456789abcde한"}):
        response = client.get("/metrics", headers=header)
        assert response.status_code == 401
        assert response.headers["Content-Type"] == "application/problem+json"
    assert client.get("/metrics", headers={"Authorization": "Bearer 0123456789abcdef"}).status_code == 200


@pytest.mark.contract("HRD-11")
@pytest.mark.parametrize(
    ("address", "header", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("::1", {}, 200),
        ("203.0.113.7", {}, 401),
        ("203.0.113.7", {"X-Forwarded-For": "127.0.0.1"}, 401),
        ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}, 401),
        ("127.0.0.1", {"Forwarded": "for=127.0.0.1"}, 401),
    ],
)
def test_hrd_11_without_a_token_metrics_answer_this_machine_alone(
    client: Client, monkeypatch: pytest.MonkeyPatch, address: str, header: dict[str, str], status: int
) -> None:
    monkeypatch.setattr(metrics, "_collectors", {})
    assert client.get("/metrics", headers=header, REMOTE_ADDR=address).status_code == status


@pytest.mark.contract("HRD-11")
def test_hrd_11_many_who_scrape_at_once_cause_one_computing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []

    def collect() -> Iterator[Any]:
        computed.append(1)
        return iter(())

    monkeypatch.setattr(metrics, "_collectors", {"counting": collect})
    pages_seen = {client.get("/metrics").content for _ in range(10)}
    assert (len(computed), len(pages_seen)) == (1, 1)
    monkeypatch.setattr(metrics, "FRESH_SECONDS", 0.0)
    client.get("/metrics")
    assert len(computed) == 2


@pytest.mark.contract("HRD-11")
def test_hrd_11_processes_of_one_platform_count_into_one_folder_that_is_theirs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root = metrics.default_root("postgresql://a")
    assert root == metrics.default_root("postgresql://a") != metrics.default_root("postgresql://b")
    assert (root.parent, root.stat().st_mode & 0o777) == (tmp_path, 0o700)
    assert "postgresql" not in root.name
    root.rmdir()
    elsewhere = tmp_path / "of-another"
    elsewhere.mkdir()
    root.symlink_to(elsewhere)
    with pytest.raises(PermissionError):
        metrics.default_root("postgresql://a")
    root.unlink()
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(PermissionError):
        metrics.default_root("postgresql://a")


@pytest.mark.contract("DPP-71")
def test_dpp_71_the_openapi_document_is_3_1_and_documents_every_reason(client: Client) -> None:
    response = client.get("/v1/openapi.json")
    document = json.loads(response.content)
    assert response.headers["Content-Type"] == "application/json"
    assert document["openapi"].startswith("3.1")
    reasons = document["components"]["schemas"]["ReasonCode"]
    assert reasons["enum"] == [code.value for code in REASONS]
    assert all(f"`{code}`: {reason.cause}" in reasons["description"] for code, reason in REASONS.items())
    for path, operations in document["paths"].items():
        assert path.startswith(("/v1/", "/api/tickets", "/api/auth-errors", "/api/automations"))
        for operation in operations.values():
            refusals = {status for status in operation["responses"] if status >= "400"}
            assert refusals >= {"400", "401", "403", "422", "429", "500", "503"}
            for status in refusals:
                content = operation["responses"][status]["content"]
                assert content == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


@pytest.mark.contract("DPP-71")
def test_dpp_71_the_docs_load_nothing_from_elsewhere(client: Client) -> None:
    for path in ("/docs/", "/docs/reference/", "/docs/problems/"):
        page = client.get(path).content.decode()
        loaded = re.findall(r'(?:src|href)="([^"#]+)"', page)
        assert loaded
        assert all(address.startswith("/") and not address.startswith("//") for address in loaded)
        for address in loaded:
            if address.startswith("/static/"):
                assert finders.find(address.removeprefix("/static/")), address


@pytest.mark.contract("DPP-71")
def test_dpp_71_the_reason_page_gives_every_code_with_cause_and_cure(client: Client) -> None:
    page = client.get("/docs/problems/").content.decode()
    assert all(f'<tr id="{code.value}">' in page for code in REASONS)


@pytest.mark.contract("DPP-74")
@pytest.mark.django_db
def test_dpp_74_queue_depths_are_read_at_the_scrape(client: Client, aws: str) -> None:
    clients.sqs_client().purge_queue(QueueUrl=aws)
    clients.sqs_client().send_message(QueueUrl=aws, MessageBody="waits")
    text = client.get("/metrics").content.decode()
    assert 'dpp_queue_waiting{queue="runs"} 1.0' in text
    assert 'dpp_queue_waiting{queue="dead_letters"} 0.0' in text
    assert 'dpp_collector_failed{name="queues"} 0.0' in text
    clients.sqs_client().purge_queue(QueueUrl=aws)
