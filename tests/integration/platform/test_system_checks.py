"""What would hurt at night is found by `manage.py check --deploy`, by its id, and some of it stops the start."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_library
from django.core.checks import CheckMessage, run_checks
from django.db import connection
from redis.backoff import NoBackoff
from redis.retry import Retry

from dpp_project import checks, constants
from dpp_project.aws import clients, provisioning
from dpp_project.devstack import ports
from dpp_project.devstack import valkey as valkeys
from dpp_project.settings import ENV
from dpp_project.stores import redis


def ids(messages: list[CheckMessage]) -> list[str]:
    return [str(message.id) for message in messages]


def environment(**values: object) -> Any:
    return ENV.model_copy(update=values)


@pytest.mark.django_db
def test_a_platform_as_provisioned_has_no_faults_of_ours(aws: str, valkey: redis_library.Redis) -> None:
    assert aws
    assert valkey.ping()
    assert [
        message for message in run_checks(include_deployment_checks=True) if str(message.id).startswith("dpp.")
    ] == []


@pytest.fixture
def evicting(valkey: redis_library.Redis) -> Iterator[None]:
    valkey.config_set("maxmemory-policy", "allkeys-lru")
    yield
    valkey.config_set("maxmemory-policy", "noeviction")


@pytest.mark.usefixtures("evicting")
def test_a_redis_that_evicts_is_refused_at_the_start() -> None:
    assert ids(checks.redis_keeps_what_it_is_given(None)) == ["dpp.E001"]
    started = subprocess.run(
        [sys.executable, "-m", "dpp_project.serve", "worker"],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert started.returncode == 1
    assert "dpp.E001" in started.stderr


def test_a_redis_cluster_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bus = str(ports.choose_port())  # else the port plus 10,000, which any connection on the machine may have
    with valkeys.running_valkey(tmp_path, options={"cluster-enabled": "yes", "cluster-port": bus}) as server:
        clustered = redis_library.Redis.from_url(server.url, decode_responses=True)
        monkeypatch.setattr(redis, "redis_client", lambda: clustered)
        assert ids(checks.redis_keeps_what_it_is_given(None)) == ["dpp.E002"]
        with pytest.raises(SystemExit, match=r"dpp\.E002"):
            checks.refuse_unsafe_redis()
        clustered.close()


def test_a_redis_that_is_away_is_not_unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    away = redis_library.Redis(port=1, socket_connect_timeout=0.2, retry=Retry(NoBackoff(), 0))
    monkeypatch.setattr(redis, "redis_client", lambda: away)
    assert ids(checks.redis_keeps_what_it_is_given(None)) == ["dpp.W003"]
    checks.refuse_unsafe_redis()


def test_a_queue_that_drifted_is_found_and_provisioned_back(aws: str) -> None:
    assert checks.queue_as_provisioned(None) == []
    clients.sqs_client().set_queue_attributes(QueueUrl=aws, Attributes={"VisibilityTimeout": "30"})
    assert ids(checks.queue_as_provisioned(None)) == ["dpp.E005"]
    provisioning.provision_aws(dry_run=False)
    assert checks.queue_as_provisioned(None) == []


@pytest.mark.contract("AUT-06")
def test_aut_06_a_queue_of_events_that_drifted_is_found_and_provisioned_back(aws: str) -> None:
    assert aws
    assert checks.events_can_be_sent(None) == []
    url = str(ENV.DPP_EVENTS_QUEUE_URL)
    clients.sqs_client().set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "30", "RedrivePolicy": ""})
    assert ids(checks.events_can_be_sent(None)) == ["dpp.E005", "dpp.E005"]
    provisioning.provision_aws(dry_run=False)
    assert checks.events_can_be_sent(None) == []


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"DPP_EVENTS_DLQ_URL": None}, ["dpp.E014"]),
        ({"DPP_EVENTS_QUEUE_URL": None}, ["dpp.E014"]),
        ({"DPP_EVENTS_QUEUE_URL": None, "DPP_EVENTS_DLQ_URL": None}, ["dpp.W007"]),
        ({"DPP_EVENTS_QUEUE_URL": f"{ENV.SQS_ENDPOINT_URL}/000000000000/no-such"}, ["dpp.W004"]),
    ],
)
def test_aut_06_queues_of_events_that_are_not_set_are_named(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, object], found: list[str]
) -> None:
    monkeypatch.setattr(checks, "ENV", environment(**values))
    assert ids(checks.events_can_be_sent(None)) == found


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("statement", "lost"),
    [
        ("ALTER TABLE tenants DROP CONSTRAINT tenants_status_known", "tenants has lost tenants_status_known."),
        ("DROP INDEX idx_api_keys_tenant", "api_keys has lost idx_api_keys_tenant."),
    ],
)
def test_a_constraint_that_was_dropped_is_named(statement: str, lost: str) -> None:
    assert checks.database_refuses_what_it_must(None) == []
    with connection.cursor() as cursor:
        cursor.execute(statement)
    found = checks.database_refuses_what_it_must(None)
    assert [(message.id, message.msg) for message in found] == [("dpp.E006", lost)]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({}, []),
        ({"DPP_HTTPS": True, "DPP_METRICS_TOKEN": "t" * 16}, ["dpp.E007"]),
        ({"DPP_HTTPS": True, "DPP_ENABLE_PROBE_PACK": False}, ["dpp.W002"]),
        ({"DPP_CLOCK_OFFSET_SECONDS": 60}, ["dpp.E008"]),
        ({"AWS_SECRET_ACCESS_KEY": None}, ["dpp.E010"]),
    ],
)
def test_settings_that_belong_to_tests_are_refused_in_production(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, object], found: list[str]
) -> None:
    monkeypatch.setattr(checks, "ENV", environment(**values))
    assert ids(checks.production(None)) == found


def test_serving_any_host_is_refused(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert ids(checks.production(None)) == ["dpp.E009"]


def test_a_name_nothing_reads_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPP_WORKER_CONCURENCY", "8")
    assert ids(checks.environment(None)) == ["dpp.W001"]


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("QUEUE_VISIBILITY_SECONDS", 90, "dpp.E003"),
        ("REAPER_INTERVAL_SECONDS", 121, "dpp.E004"),
        ("LEASE_HEARTBEAT_INTERVAL_SECONDS", 60, "dpp.E004"),
    ],
)
def test_constants_that_do_not_fit_each_other_are_found(
    monkeypatch: pytest.MonkeyPatch, name: str, value: int, found: str
) -> None:
    monkeypatch.setattr(constants, name, value)
    assert ids(checks.environment(None)) == [found]


def test_every_check_id_stands_in_the_operations_page() -> None:
    repository = Path(__file__).resolve().parents[3]
    source = (repository / "dpp_project" / "checks.py").read_text(encoding="utf-8")
    page = (repository / "docs" / "operations.md").read_text(encoding="utf-8")
    used = {part.split('"')[0] for part in source.split('id="')[1:]}
    assert used
    assert all(identifier in page or identifier.removeprefix("dpp.") in page for identifier in used)
