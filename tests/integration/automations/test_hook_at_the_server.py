"""A signed hook at the real server: a body without a key, and no larger, later or more often than any stranger's."""

import json
from pathlib import Path

import pytest

from dpp_project.http.parsers import MAX_BODY_BYTES
from tests.gear.builders.automation_world import a_hook, events
from tests.gear.servers.live_api import Received, an_api
from tests.integration.automations.test_signed_hooks import OPENED, SECRET, by_github

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("LIF-06", "LIF-12")]


def a_request(body: bytes, signature: str, path: str = "/api/automations/hooks/hook") -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"X-Hub-Signature-256: {signature}",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def test_lif_06_the_server_reads_a_body_that_a_signature_proves(tmp_path: Path) -> None:
    source = a_hook(secret=SECRET).source
    body, large = json.dumps(OPENED).encode(), b'"' + b"x" * MAX_BODY_BYTES + b'"'

    def said(received: Received) -> tuple[int, str]:
        document = json.loads(received.body)
        return received.status, document.get("outcome") or document["reason_code"]

    with an_api(tmp_path) as api:
        assert said(api.ask(a_request(body, by_github(body)))) == (202, "taken")
        assert said(api.ask(a_request(body, by_github(body)))) == (202, "taken")
        assert said(api.ask(a_request(body, by_github(body, "wrong")))) == (401, "AUTH_INVALID")
        assert said(api.ask(a_request(large, by_github(large)))) == (413, "PAYLOAD_TOO_LARGE")
        # Beside it, an address that asks for a key still takes no stranger's body.
        assert said(api.ask(a_request(body, by_github(body), "/api/automations/rules"))) == (401, "AUTH_INVALID")
    assert len(events(source)) == 1
