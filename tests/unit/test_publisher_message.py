"""The message (DPP-38) inside Celery's envelope."""

import base64
import json
import uuid
from typing import Any

import pytest

from dpp_project.clock import FixedClock
from dpp_project.settings import ENV
from runs.submit.wake_worker import Wakeup

RUN_ID = uuid.UUID("01900000-0000-7000-8000-000000000001")


def a_wakeup() -> Wakeup:
    return Wakeup(run_id=RUN_ID, tenant_id="t_acme", pack_type="ocr", trace_id="t_1")


def opened(text: str) -> tuple[dict[str, Any], list[Any]]:
    document: dict[str, Any] = json.loads(base64.b64decode(text))
    return document, json.loads(base64.b64decode(document["body"]))


@pytest.mark.contract("DPP-38")
@pytest.mark.usefixtures("clock")
def test_dpp_38_kwargs_are_exactly_the_documented_message() -> None:
    _, (args, kwargs, _) = opened(a_wakeup().message().body)
    assert args == []
    assert kwargs == {
        "run_id": "01900000-0000-7000-8000-000000000001",
        "tenant_id": "t_acme",
        "pack_type": "ocr",
        "enqueued_at": "2026-03-01T12:00:00Z",
        "schema_version": "1",
    }


@pytest.mark.contract("DPP-25")
def test_dpp_25_the_trace_id_travels_in_the_headers() -> None:
    document, _ = opened(a_wakeup().message().body)
    assert document["headers"]["trace_id"] == "t_1"
    assert document["headers"]["task"] == "runs.tasks.execute"


@pytest.mark.contract("DPP-73")
def test_dpp_73_the_headers_that_celery_logs_repeat_no_argument() -> None:
    headers = opened(a_wakeup().message().body)[0]["headers"]
    assert headers["argsrepr"] == headers["kwargsrepr"] == ""
    assert "t_acme" not in json.dumps(headers)


def test_publisher_each_message_has_an_id_of_its_own(clock: FixedClock) -> None:
    ids = {opened(a_wakeup().message().body)[0]["headers"]["id"] for _ in range(10)}
    assert len(ids) == 10


def test_publisher_groups_messages_by_tenant_unless_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert a_wakeup().message().group == "t_acme"
    monkeypatch.setattr("runs.submit.wake_worker.ENV", ENV.model_copy(update={"DPP_SQS_GROUP_BY": "none"}))
    assert a_wakeup().message().group is None
