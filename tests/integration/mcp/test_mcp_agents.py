"""Agents with the SDK's own client, against a real API: over HTTP and stdio, in each era of the protocol (DPP-82)."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client import Client
from PIL import Image

from tests.gear.builders.mcp_callers import NEWEST, WAYS, Way, call, message, talk
from tests.gear.builders.shop import PRICE_MICROS, RUNS, Shop, a_shop
from tests.gear.builders.tenants import bearer
from tests.gear.builders.waiting import begun, left
from tests.gear.servers.live_api import Api, an_api
from tests.gear.servers.worker import ROOT
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.contract("DPP-70", "DPP-82"), pytest.mark.django_db(transaction=True)]

DECISION = {"question": "Who pays?", "max_cost_usd": 0.25}
every_way = pytest.mark.parametrize("way", WAYS, ids=str)
STDIO = Way("stdio", NEWEST)


@pytest.fixture(scope="module")
def api(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with an_api(tmp_path_factory.mktemp("mcp"), threads=4) as found:
        yield found


@pytest.fixture(scope="module")
def one_thread(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with an_api(tmp_path_factory.mktemp("one"), threads=1, limits={}) as found:
        yield found


@pytest.fixture
def url(api: Api, shop: Shop) -> str:
    return f"http://127.0.0.1:{api.port}"


@every_way
def test_dpp_82_an_agent_buys_reads_and_cancels(way: Way, url: str, shop: Shop) -> None:
    async def script(client: Client) -> tuple[Any, ...]:
        listed = await client.list_tools()
        bought = await client.call_tool("dpp_decision_run_submit", DECISION)
        run_id = bought.structured_content["run_id"]
        read = await client.call_tool("dpp_run_get", {"run_id": run_id})
        canceled = await client.call_tool("dpp_run_cancel", {"run_id": run_id})
        wrong = await client.call_tool("dpp_decision_run_submit", DECISION | {"colour": "blue"})
        return listed, bought, read, canceled, wrong

    listed, bought, read, canceled, wrong = talk(way, url, shop.issued.plaintext, script)
    assert len(listed.tools) == 8
    assert (bought.is_error, bought.structured_content["status"]) == (False, "QUEUED")
    assert read.structured_content["cost"]["reserved_usd_micros"] == PRICE_MICROS
    assert canceled.structured_content["money_state"] == "REFUNDED"
    assert (wrong.is_error, wrong.structured_content["field"]) == (True, "colour")
    assert [str(run.run_id) for run in shop.runs()] == [bought.structured_content["run_id"]]


@every_way
def test_dpp_82_a_call_repeated_and_two_at_once_pay_once(way: Way, url: str, shop: Shop) -> None:
    """Some of those at once may be told to repeat; then they are answered with the one run."""

    async def buy(client: Client) -> Any:
        while True:
            bought = await client.call_tool("dpp_decision_run_submit", DECISION)
            if not bought.is_error:
                return bought.structured_content["run_id"]
            assert bought.structured_content["reason_code"] == "IDEMPOTENCY_IN_PROGRESS"
            assert bought.structured_content["retry_after"] == 1

    async def script(client: Client) -> set[str]:
        at_once = await asyncio.gather(*(buy(client) for _ in range(4)))
        return {*at_once, await buy(client)}

    (run_id,) = talk(way, url, shop.issued.plaintext, script)
    assert shop.holds() == {run_id: PRICE_MICROS}
    assert len(shop.runs()) == 1


def test_dpp_82_all_ways_and_rest_with_one_key_share_one_run(url: str, shop: Shop) -> None:
    async def script(client: Client) -> Any:
        return (
            await client.call_tool("dpp_decision_run_submit", DECISION | {"idempotency_key": "order-0009"})
        ).structured_content

    found = {talk(way, url, shop.issued.plaintext, script)["run_id"] for way in WAYS}
    body = {"pack_type": "decision", "inputs": {"question": "Who pays?"}, "reservation": {"max_cost_usd": "0.2500"}}
    assert found == {shop.submit(body, key="order-0009").json()["run_id"]}
    assert len(shop.runs()) == 1


@every_way
@pytest.mark.parametrize("agrees", [True, False])
def test_dpp_82_the_newest_era_asks_a_person_and_the_others_name_the_argument(
    way: Way, url: str, shop: Shop, *, agrees: bool
) -> None:
    async def script(client: Client) -> Any:
        return await client.call_tool("dpp_decision_run_submit", DECISION | {"max_cost_usd": 10.5})

    bought = talk(way, url, shop.issued.plaintext, script, agrees=agrees)
    asked = way.mode != "legacy"
    expected = "BUDGET_DRAINED" if agrees and asked else "CONFIRMATION_REQUIRED"  # it has 10 USD: the word passed
    assert (bought.is_error, bought.structured_content["reason_code"]) == (True, expected)
    shop.nothing_happened()


@every_way
def test_dpp_82_nobody_to_be_asked_is_named_the_argument(way: Way, url: str, shop: Shop) -> None:
    async def script(client: Client) -> Any:
        return await client.call_tool("dpp_decision_run_submit", DECISION | {"max_cost_usd": 10.5})

    bought = talk(way, url, shop.issued.plaintext, script)
    assert bought.structured_content["field"] == "confirm"


@every_way
def test_dpp_82_a_wrong_key_is_an_error_and_not_a_hang(way: Way, url: str, shop: Shop) -> None:
    async def script(client: Client) -> Any:
        return await client.call_tool("dpp_budget_get")

    with pytest.raises(BaseException) as refused:  # noqa: PT011  the SDK groups what it raises
        talk(way, url, f"dpp_AAAAAAAA_{'B' * 43}", script)
    expected = "AUTH_INVALID" if way.transport == "stdio" else "error response"  # of HTTP's 401 the SDK says no more
    assert expected in repr(_leaves(refused.value))


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error]


@every_way
def test_dpp_82_anothers_run_is_not_there(way: Way, url: str, shop: Shop) -> None:
    async def script(client: Client) -> Any:
        bought = await client.call_tool("dpp_decision_run_submit", DECISION)
        return bought.structured_content["run_id"]

    theirs = talk(way, url, a_shop().issued.plaintext, script)

    async def look(client: Client) -> Any:
        return [await client.call_tool(name, {"run_id": theirs}) for name in ("dpp_run_get", "dpp_run_cancel")]

    for answer in talk(way, url, shop.issued.plaintext, look):
        assert (answer.is_error, answer.structured_content["reason_code"]) == (True, "NOT_FOUND")


@every_way
def test_dpp_82_a_wait_ends_with_the_run_and_keeps_no_other_call_waiting(way: Way, shop: Shop, one_thread: Api) -> None:
    async def script(client: Client) -> tuple[Any, ...]:
        run_id = (await client.call_tool("dpp_decision_run_submit", DECISION)).structured_content["run_id"]
        over = await client.call_tool("dpp_run_get", {"run_id": run_id, "wait_seconds": 1})
        waits = asyncio.create_task(client.call_tool("dpp_run_get", {"run_id": run_id, "wait_seconds": 40}))
        beside = await client.call_tool("dpp_budget_get")
        is_waiting = not waits.done()
        await client.call_tool("dpp_run_cancel", {"run_id": run_id})
        return over, beside, is_waiting, await asyncio.wait_for(waits, 20)

    url = f"http://127.0.0.1:{one_thread.port}"
    over, beside, is_waiting, ended = talk(way, url, shop.issued.plaintext, script)
    assert (over.structured_content["status"], beside.is_error, is_waiting) == ("QUEUED", False, True)
    assert ended.structured_content["result"]["reason_code"] == "CANCELED_BY_OWNER"


def test_dpp_82_who_leaves_while_waiting_leaves_nothing_open(shop: Shop, one_thread: Api) -> None:
    run_id = shop.submit().json()["run_id"]
    body = json.dumps(call("dpp_run_get", {"run_id": run_id, "wait_seconds": 40})).encode()
    head = (
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {shop.issued.plaintext}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()

    def leave(count: int) -> None:
        waits, gone = begun(one_thread), left(one_thread)
        with ExitStack() as connected:
            for client in [connected.enter_context(one_thread.connect()) for _ in range(count)]:
                client.send(head + body)
            wait_until(lambda: begun(one_thread) == waits + count)
        wait_until(lambda: left(one_thread) == gone + count)

    leave(3)
    before = one_thread.open_files()
    leave(10)
    wait_until(lambda: one_thread.open_files() < before + 5, what="less than a file for each second that left")


def test_dpp_82_the_log_says_which_tool_and_never_what_was_asked(api: Api, url: str, shop: Shop) -> None:
    async def script(client: Client) -> Any:
        return await client.call_tool("dpp_decision_run_submit", DECISION | {"question": "a canary in a question"})

    talk(Way("http", NEWEST), url, shop.issued.plaintext, script)
    assert "dpp_decision_run_submit" in [line.get("tool") for line in api.log_lines("request")]
    assert "a canary" not in api.log.read_text(encoding="utf-8")


# The bridge, where it is more than a pipe.


def bridged(url: str, key: str, *lines: bytes) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "manage.py", "mcp"],
        input=b"\n".join(lines) + b"\n",
        capture_output=True,
        env={"DPP_API_URL": url, "DPP_API_KEY": key, "PATH": "/usr/bin"},
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    assert done.stderr == b""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_dpp_82_the_bridge_needs_an_address_and_a_key_alone() -> None:
    for environ in ({}, {"DPP_API_KEY": "k"}, {"DPP_API_KEY": "k", "DPP_API_URL": "dpp.example"}):
        done = subprocess.run(
            [sys.executable, "manage.py", "mcp"], env=environ, cwd=ROOT, capture_output=True, check=False
        )
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"DPP_API_" in done.stderr


def test_dpp_82_the_bridge_outlives_nonsense_on_its_lines(url: str, shop: Shop) -> None:
    answers = bridged(
        url,
        shop.issued.plaintext,
        b"no json",
        b"",
        b"[1]",
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"dpp_budget_get"}}',
        b'"' + b"x" * 1_100_000 + b'"',
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        json.dumps(message("tools/list", number="last")).encode(),
    )
    by_id = {str(answer["id"]): answer for answer in answers}
    assert len(answers) == 5
    assert set(by_id) == {"None", "7", "last"}
    assert by_id["7"]["result"]["isError"] is False
    assert len(by_id["last"]["result"]["tools"]) == 8


def test_dpp_82_the_bridge_says_that_the_api_is_away_and_how_to_go_on(shop: Shop) -> None:
    (answer,) = bridged("http://127.0.0.1:9", shop.issued.plaintext, json.dumps(call("dpp_budget_get")).encode())
    assert "Repeat the same call" in answer["error"]["message"]


def test_dpp_82_the_bridge_uploads_a_local_file_once_and_the_retry_pays_once(
    url: str, shop: Shop, tmp_path: Path
) -> None:
    page = tmp_path / "a page.png"
    Image.new("RGB", (40, 40), "white").save(page)

    async def script(client: Client) -> list[types.CallToolResult]:
        files = [str(page)]
        return [
            await client.call_tool("dpp_ocr_run_submit", {"input_files": files, "max_cost_usd": 0.25})
            for files in (files, [page.as_uri()])
        ]

    first, again = talk(STDIO, url, shop.issued.plaintext, script)
    assert first.is_error is False, first.structured_content
    assert (again.structured_content["run_id"], again.structured_content["replayed"]) == (
        first.structured_content["run_id"],
        True,
    )
    (run,) = shop.runs()
    inputs = run.sent.inputs["images"]
    assert [image["key"].rpartition("/")[2] for image in inputs] == ["a_page.png"]
    assert shop.client.get(f"{RUNS}/{run.run_id}", headers=bearer(shop.issued)).status_code == 200


@pytest.mark.parametrize("named", ["nothing.png", "/etc/passwd", "file:///nowhere/a.pdf", ""])
def test_dpp_82_the_bridge_says_which_file_it_cannot_take(url: str, shop: Shop, named: str) -> None:
    async def script(client: Client) -> Any:
        return await client.call_tool("dpp_ocr_run_submit", {"input_files": [named], "max_cost_usd": 0.25})

    answer = talk(STDIO, url, shop.issued.plaintext, script)
    assert (answer.is_error, answer.structured_content["field"]) == (True, "input_files[0]")
    shop.nothing_happened()
