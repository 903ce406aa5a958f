"""What thousands of calls leave behind in the process that answers them: nothing (DPP-82)."""

import http.client
import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import pytest
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY

from tests.gear.builders.mcp_callers import NEWEST, call, message
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import bearer
from tests.gear.servers.live_api import Api, an_api
from tests.proving.proofs import report

pytestmark = [pytest.mark.contract("DPP-82"), pytest.mark.django_db(transaction=True)]

WARMING: Final = 600
MARGIN_PERCENT: Final = 5
DECISION: Final = {"question": "Who pays?", "max_cost_usd": 0.25}
_ENVELOPE: Final = {PROTOCOL_VERSION_META_KEY: NEWEST, CLIENT_CAPABILITIES_META_KEY: {}}


def resident_kilobytes(api: Api) -> int:
    (worker,) = api.workers()
    status = Path(f"/proc/{worker}/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0])


def messages_of(run_id: str) -> Sequence[tuple[dict[str, Any], dict[str, str]]]:
    """Of both eras: answered, refused, unknown, bought again."""
    newest = {"MCP-Protocol-Version": NEWEST, "Mcp-Method": "tools/call", "Mcp-Name": "dpp_run_get"}
    return (
        (call("dpp_run_get", {"run_id": run_id}), {}),
        (call("dpp_run_get", {"run_id": run_id}, _meta=_ENVELOPE), newest),
        (call("dpp_decision_run_submit", DECISION), {}),
        (call("dpp_decision_run_submit", DECISION | {"colour": "x" * 200}), {}),
        (call("dpp_astrology"), {}),
        (message("tools/list"), {}),
    )


@pytest.mark.parametrize("calls", [600, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_dpp_82_calls_leave_no_memory_and_no_file_behind(shop: Shop, tmp_path: Path, calls: int) -> None:
    with an_api(tmp_path, threads=2) as api, ExitStack() as opened:
        connection = opened.enter_context(closing(http.client.HTTPConnection("127.0.0.1", api.port, timeout=30)))
        headers = bearer(shop.issued) | {"Content-Type": "application/json", "Accept": "application/json"}

        def ask(body: dict[str, Any], beside: dict[str, str]) -> dict[str, Any]:
            connection.request("POST", "/mcp", json.dumps(body), headers | beside)
            response = connection.getresponse()
            found: dict[str, Any] = json.loads(response.read())
            assert response.status == 200, found
            return found

        bought = ask(call("dpp_decision_run_submit", DECISION), {})
        kinds = messages_of(bought["result"]["structuredContent"]["run_id"])
        for number in range(WARMING):
            ask(*kinds[number % len(kinds)])
        before, files = resident_kilobytes(api), api.open_files()
        for number in range(calls):
            ask(*kinds[number % len(kinds)])
        after = resident_kilobytes(api)
        assert abs(after - before) <= before * MARGIN_PERCENT / 100, (before, after)
        assert api.open_files() <= files + 2
    assert len(shop.runs()) == 1
    report(cases=calls)
