"""The receiver of docs/webhooks.md, run as it stands there: what it takes, what it refuses, what it does once."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import IO, Any
from uuid import UUID

import pytest

from dpp_project import clock
from dpp_project.devstack import ports
from tenants.webhooks import bodies, signing
from tenants.webhooks.models import WebhookMessage
from tests.gear.source import REPOSITORY
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("HOOK-02")

PAGE = REPOSITORY.joinpath("docs/webhooks.md").read_text(encoding="utf-8")
SECRET, NEXT = signing.written_secret(b"a" * 32), signing.written_secret(b"b" * 32)
LINES_MAX = 15


def code() -> str:
    (found,) = re.findall(r"## A receiver\n.*?```python\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@dataclass
class Receiver:
    port: int
    out: IO[str]

    def send(self, body: bytes, headers: dict[str, str]) -> int:
        talk = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            talk.request("POST", "/", body=body, headers=headers)
            return talk.getresponse().status
        finally:
            talk.close()

    def is_up(self) -> bool:
        try:
            return self.send(b"{}", {"webhook-timestamp": "0"}) == 400
        except OSError:
            return False


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    port = ports.choose_port()
    started = subprocess.Popen(
        [sys.executable, "-c", code()],
        env=os.environ | {"WEBHOOK_SECRET": SECRET, "PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert started.stdout is not None
    made = Receiver(port, started.stdout)
    try:
        wait_until(made.is_up, what="the receiver to answer")
        yield made
    finally:
        started.send_signal(signal.SIGKILL)
        started.wait()
        started.stdout.close()


def a_message(**payload: Any) -> WebhookMessage:
    return WebhookMessage(
        message_id=UUID("019577d2-4e80-7c3a-9d1f-3b8d6e4f1a37"), event="run.completed", payload=payload, at=clock.now()
    )


def signed(
    body: bytes, *, name: str = "msg_1", at: datetime | None = None, secrets: tuple[str, ...] = (SECRET,)
) -> Any:
    return dict(signing.signature_headers(webhook_id=name, at=at or clock.now(), body=body, secrets=secrets))


def test_hook_02_the_receiver_of_the_page_verifies_and_does_each_thing_once(receiver: Receiver) -> None:
    body = json.dumps({"type": "run.completed", "data": {"이유": "완료"}}, ensure_ascii=False).encode()
    for _ in range(3):  # as a sender does that was killed between answer and mark
        assert receiver.send(body, signed(body)) == 204
    assert receiver.send(body, signed(body, name="msg_2", secrets=(NEXT, SECRET))) == 204
    late = timedelta(seconds=301)
    wrong = [
        signed(body, name="msg_3", secrets=(NEXT,)),
        signed(b"{}", name="msg_3"),
        signed(body, name="msg_3", at=clock.now() - late),
        signed(body, name="msg_3", at=clock.now() + late),
        signed(body, name="msg_3") | {"webhook-id": "msg_4"},
        signed(body, name="msg_3") | {"webhook-signature": ""},
        signed(body, name="msg_3") | {"webhook-signature": "v1, v1a,x"},
    ]
    assert [receiver.send(body, headers) for headers in wrong] == [400] * len(wrong)
    assert receiver.send(b'{"type": "run.failed", "data": {}}', signed(b'{"type": "run.failed", "data": {}}')) == 204
    last = b'{"type": "endpoint.test", "data": {}}'
    assert receiver.send(last, signed(last, name="msg_5")) == 204
    told = [receiver.out.readline() for _ in range(3)]
    assert told == [
        "{'type': 'run.completed', 'data': {'이유': '완료'}}\n",
        "{'type': 'run.completed', 'data': {'이유': '완료'}}\n",
        "{'type': 'endpoint.test', 'data': {}}\n",
    ]


def test_hook_02_what_is_sent_is_the_same_at_every_attempt_and_has_the_form_of_the_page() -> None:
    message = a_message(version=4, run_id="r", href="/v1/runs/r")
    read_anew = a_message(**dict(reversed(message.payload.items())))
    read_anew.at = message.at
    body = bodies.webhook_body_of(message)
    assert body == bodies.webhook_body_of(read_anew)
    document = json.loads(body)
    assert set(document) == {"type", "timestamp", "data"}
    assert document["timestamp"].endswith("Z")
    assert bodies.webhook_id(message) == "msg_019577d24e807c3a9d1f3b8d6e4f1a37"


def test_hook_02_the_receiver_is_short_enough_to_be_read() -> None:
    assert len([line for line in code().splitlines() if line.strip()]) <= LINES_MAX
