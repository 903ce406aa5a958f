"""Health, metrics, the OpenAPI document and the pages around it (DPP-71, DPP-72, DPP-74)."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from dpp_project import health, metrics, pages, settings
from dpp_project.http.reasons import REASONS
from dpp_project.sqs import client as sqs_client


@pytest.fixture(autouse=True)
def forget_the_last_probing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_latest", health._Latest())


@pytest.mark.contract("DPP-72")
def test_dpp_72_healthz_says_that_the_process_lives(client: Client) -> None:
    response = client.get("/healthz")
    assert (response.status_code, json.loads(response.content)) == (200, {"status": "alive"})


@pytest.mark.contract("DPP-72")
@pytest.mark.django_db(transaction=True)
def test_dpp_72_readyz_gives_each_dependency_with_state_and_milliseconds(client: Client, aws: Any) -> None:
    response = client.get("/readyz")
    body = json.loads(response.content)
    assert response.status_code == 200, body
    assert set(body["dependencies"]) == {"database", "redis", "s3", "sqs"}
    for result in body["dependencies"].values():
        assert result["state"] == "up"
        assert 0 <= result["ms"] < 3_000


@pytest.mark.contract("DPP-72")
@pytest.mark.parametrize("name", ["database", "redis", "s3", "sqs"])
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


@pytest.mark.contract("DPP-72")
def test_dpp_72_many_who_ask_at_once_cause_one_probing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    probed: list[str] = []
    monkeypatch.setattr(health, "PROBES", {"redis": lambda: probed.append("redis")})
    for _ in range(20):
        assert client.get("/readyz").status_code == 200
    assert probed == ["redis"]


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
    monkeypatch.setattr(pages, "ENV", locked)
    for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer 0123456789abcde한"}):
        response = client.get("/metrics", headers=header)
        assert response.status_code == 401
        assert response.headers["Content-Type"] == "application/problem+json"
    assert client.get("/metrics", headers={"Authorization": "Bearer 0123456789abcdef"}).status_code == 200


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
        assert path.startswith(("/v1/", "/api/tickets"))
        for operation in operations.values():
            refusals = {status for status in operation["responses"] if status >= "400"}
            assert refusals >= {"400", "401", "403", "422", "429", "500", "503"}
            for status in refusals:
                content = operation["responses"][status]["content"]
                assert content == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


@pytest.mark.contract("DPP-71")
def test_dpp_71_the_docs_load_nothing_from_elsewhere(client: Client) -> None:
    for path in ("/docs/", "/docs/problems/"):
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
    sqs_client.client().purge_queue(QueueUrl=aws)
    sqs_client.client().send_message(QueueUrl=aws, MessageBody="waits")
    text = client.get("/metrics").content.decode()
    assert 'dpp_queue_waiting{queue="runs"} 1.0' in text
    assert 'dpp_queue_waiting{queue="dead_letters"} 0.0' in text
    assert 'dpp_collector_failed{name="queues"} 0.0' in text
    sqs_client.client().purge_queue(QueueUrl=aws)
