"""What lies in the dead-letter queue may be anything: it is ours exactly, or poison, and reading it never raises."""

import base64
import json
import uuid
from typing import Any

import pytest

from dpp_project.celery_sqs import celery_message
from reaper import message_parser
from runs.submit.wake_worker import TASK, Wakeup

RUN_ID = uuid.UUID("01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e")
KWARGS = {
    "run_id": str(RUN_ID),
    "tenant_id": "t_acme",
    "pack_type": "decision",
    "enqueued_at": "2026-03-01T12:00:00Z",
    "schema_version": "1",
}


def packed(kwargs: Any = None, *, task: str = TASK, trace_id: Any = "t_1") -> str:
    return celery_message.pack_celery_message(
        task=task, kwargs=KWARGS if kwargs is None else kwargs, queue="runs", trace_id=trace_id
    )


def encoded(document: Any) -> str:
    return base64.b64encode(json.dumps(document).encode()).decode()


def with_body(body: Any) -> str:
    return encoded({"headers": {"task": TASK}, "body": encoded(body)})


@pytest.mark.contract("DPP-45")
def test_dpp_45_a_message_of_ours_is_read_whole() -> None:
    body = Wakeup(run_id=RUN_ID, tenant_id="t_acme", pack_type="decision", trace_id="t_1").message().body
    letter = message_parser.parse_message(body)
    assert letter is not None
    assert (letter.run_id, letter.task, letter.trace_id) == (RUN_ID, "runs.tasks.execute", "t_1")
    assert set(letter.kwargs) == set(KWARGS)
    assert message_parser.parse_message(packed()) == message_parser.Letter(
        run_id=RUN_ID, task=TASK, trace_id="t_1", kwargs=KWARGS
    )


@pytest.mark.parametrize("trace_id", [None, 7, "x" * 300, "a\x00b"])
def test_a_trace_that_is_no_text_is_left_out(trace_id: Any) -> None:
    letter = message_parser.parse_message(packed(trace_id=trace_id))
    assert letter is not None
    assert letter.trace_id == ""


@pytest.mark.contract("DPP-38")
@pytest.mark.parametrize(
    "body",
    [
        "",
        "not base64!",
        "bm90IGpzb24=",
        base64.b64encode(b"\xff\xfe").decode(),
        encoded(7),
        encoded([]),
        encoded(None),
        encoded({}),
        encoded({"headers": {}, "body": 7}),
        encoded({"headers": [], "body": encoded([[], KWARGS, {}])}),
        encoded({"headers": {"task": TASK}, "body": "no base64!"}),
        base64.b64encode(b"[" * 100_000).decode(),
        base64.b64encode(b'{"headers": ' + b"9" * 5_000 + b"}").decode(),
        packed(task="another.task"),
        with_body([[], KWARGS]),
        with_body([[1], KWARGS, {}]),
        with_body([[], [], {}]),
        with_body([[], {}, {}]),
        with_body({"run_id": str(RUN_ID)}),
        packed({**KWARGS, "inputs": "a secret"}),
        packed({name: value for name, value in KWARGS.items() if name != "tenant_id"}),
        packed({**KWARGS, "run_id": "no uuid"}),
        packed({**KWARGS, "run_id": 7}),
        packed({**KWARGS, "tenant_id": 7}),
        packed({**KWARGS, "tenant_id": "t\x00"}),
        packed({**KWARGS, "tenant_id": "\ud800"}),
        packed({**KWARGS, "pack_type": "x" * 257}),
    ],
)
def test_dpp_38_whatever_is_not_exactly_ours_is_poison(body: str) -> None:
    assert message_parser.parse_message(body) is None
