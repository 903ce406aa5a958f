"""`POST /mcp` against the real services: each tool, its refusals, its keys and its price (DPP-70, DPP-82)."""

import json
import time
from typing import Any

import pytest

from dpp_project.stores import redis
from runs.mcp import tools
from runs.models import Run
from tenants.scopes import Scope
from tests.gear.builders import recovery, work
from tests.gear.builders import runs as gear
from tests.gear.builders.caps import put_in_force
from tests.gear.builders.mcp_callers import call, content_of, message, post, result_of
from tests.gear.builders.shop import PRICE_MICROS, RUNS, Shop, a_shop, messages, take_balance_to
from tests.gear.builders.tenants import a_key, an_operator_key, bearer

pytestmark = pytest.mark.contract("DPP-70", "DPP-82")

DECISION = {"question": "Who pays?", "max_cost_usd": 0.25}
URL_RUN = {"urls": ["https://example.com/"], "max_cost_usd": 0.25}


def submit(shop: Shop, arguments: Any = None, name: str = "dpp_decision_run_submit", **beside: Any) -> Any:
    return post(shop, call(name, DECISION if arguments is None else arguments, **beside))


def refusal(answer: Any) -> dict[str, Any]:
    found = result_of(answer)
    assert found["isError"] is True
    content: dict[str, Any] = found["structuredContent"]
    assert found["content"][0]["text"].startswith(content["reason_code"])
    return content


# The specification's tools, and what is listed.

SPECIFIED = {
    "dpp_url_run_submit": (
        ["urls", "max_cost_usd"],
        {
            "urls": {"type": "array", "items": {"type": "string", "format": "uri"}, "maxItems": 30},
            "max_cost_usd": {"type": "number", "minimum": 0.01},
            "timebox_sec": {"type": "integer", "minimum": 1, "maximum": 90},
            "min_reliability_score": {"type": "number", "minimum": 0, "maximum": 1},
        },
    ),
    "dpp_ocr_run_submit": (
        ["input_files", "max_cost_usd"],
        {
            "input_files": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 10},
            "max_cost_usd": {"type": "number", "minimum": 0.01},
            "ocr_profile": {"type": "string", "enum": ["P1", "P2A", "P2B", "P3"]},
            "language": {"type": "string", "default": "kor+eng"},
            "timebox_sec": {"type": "integer", "minimum": 1, "maximum": 90},
            "artifacts": {
                "type": "object",
                "properties": {"include_markdown": {"type": "boolean"}, "include_docx": {"type": "boolean"}},
            },
        },
    ),
    "dpp_decision_run_submit": (
        ["question", "max_cost_usd"],
        {
            "question": {"type": "string"},
            "context": {"type": "string"},
            "max_cost_usd": {"type": "number", "minimum": 0.01},
            "timebox_sec": {"type": "integer", "minimum": 1, "maximum": 90},
            "min_reliability_score": {"type": "number", "minimum": 0, "maximum": 1},
        },
    ),
}


def without_words(schema: Any) -> Any:
    return {key: value for key, value in schema.items() if key != "description"}


def test_dpp_70_the_specified_tools_have_their_properties_and_two_more() -> None:
    for name, (required, properties) in SPECIFIED.items():
        schema = tools.input_schema(tools.TOOLS[name])
        assert sorted(schema["required"]) == sorted(required)
        assert schema["additionalProperties"] is False
        found = {key: without_words(value) for key, value in schema["properties"].items()}
        assert {found.pop("idempotency_key")["type"], found.pop("confirm")["type"]} == {"string", "boolean"}
        assert found == properties


def test_dpp_82_the_list_is_small_and_says_what_a_tool_changes(shop: Shop) -> None:
    answer = post(shop, message("tools/list"))
    listed = {tool["name"]: tool["annotations"] for tool in result_of(answer)["tools"]}
    assert len(answer.content) <= 8_192
    assert set(listed) == set(SPECIFIED) | {
        *("dpp_run_get", "dpp_run_cancel", "dpp_estimate", "dpp_budget_get", "dpp_upload_create"),
    }
    for name in SPECIFIED:
        assert listed[name] == {
            "readOnlyHint": False,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": True,
        }
    assert [name for name, hints in listed.items() if hints["readOnlyHint"]] == [
        *("dpp_run_get", "dpp_estimate", "dpp_budget_get"),
    ]


# What a submit is.


def test_dpp_70_a_submit_is_the_rest_request_and_answers_its_receipt(shop: Shop) -> None:
    content = content_of(submit(shop, DECISION | {"timebox_sec": 30, "idempotency_key": "order-0001"}))
    (run,) = shop.runs()
    assert (run.pack_type, run.reservation_max_cost_usd_micros) == ("decision", PRICE_MICROS)
    assert run.idempotency_key == "order-0001"
    body = {
        "pack_type": "decision",
        "inputs": {"question": "Who pays?"},
        "reservation": {"max_cost_usd": "0.2500", "timebox_sec": 30},
    }
    by_rest = shop.submit(body, key="order-0001")
    assert by_rest.headers["Idempotent-Replayed"] == "true"
    receipt = by_rest.json()
    assert {name: content[name] for name in receipt} == receipt
    assert set(content) - set(receipt) == {"replayed"}
    assert (len(shop.runs()), len(messages())) == (1, 1)


def test_dpp_82_rest_first_and_a_tool_after_it_share_one_run(shop: Shop) -> None:
    body = {
        "pack_type": "url",
        "inputs": {"urls": ["https://example.com/"]},
        "reservation": {"max_cost_usd": "0.2500"},
    }
    by_rest = shop.submit(body, key="order-0002").json()
    content = content_of(submit(shop, URL_RUN | {"idempotency_key": "order-0002"}, "dpp_url_run_submit"))
    assert (content["run_id"], content["replayed"]) == (by_rest["run_id"], True)
    assert len(shop.runs()) == 1


def test_dpp_82_a_retried_call_without_a_key_pays_once(shop: Shop) -> None:
    first, again = content_of(submit(shop)), content_of(submit(shop))
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert (again["run_id"], again["idempotency_key"]) == (first["run_id"], first["idempotency_key"])
    assert "idempotency key of your own" in again["hint"]
    assert shop.holds() == {first["run_id"]: PRICE_MICROS}
    by_rest = shop.client.post(
        RUNS,
        data={
            "pack_type": "decision",
            "inputs": {"question": "Who pays?"},
            "reservation": {"max_cost_usd": "0.2500"},
        },
        content_type="application/json",
        headers=bearer(shop.issued) | {"DPP-Derive-Key": "1"},
    )
    assert by_rest.json()["run_id"] == first["run_id"]


@pytest.mark.parametrize(
    ("tool_use_id", "key"),
    [
        ("toolu_01A09q90qw90lq917835lq9", "toolu_01A09q90qw90lq917835lq9"),
        ("short", "tool-f9b0078b5df596d2ea19010c001bbd009e651de2c57e8fb7"),
        ("with a space in it", None),
        ("x" * 65, None),
    ],
)
def test_dpp_82_a_client_that_repeats_a_call_by_itself_names_it(shop: Shop, tool_use_id: str, key: str | None) -> None:
    meta = {"claudecode/toolUseId": tool_use_id}
    for _ in range(2):
        submit(shop, _meta=meta)
    (run,) = shop.runs()
    assert run.idempotency_key is not None
    assert 8 <= len(run.idempotency_key) <= 64
    assert run.idempotency_key.startswith(key or "tool-") or key is None
    submit(shop, DECISION | {"idempotency_key": "my-own-key"}, _meta=meta)
    assert [one.idempotency_key for one in shop.runs()][1] == "my-own-key"


def test_dpp_82_the_number_of_a_message_is_no_key(shop: Shop) -> None:
    """Clients count from 1 again."""
    post(shop, call("dpp_decision_run_submit", DECISION) | {"id": 1})
    post(shop, call("dpp_decision_run_submit", DECISION | {"question": "Who else?"}) | {"id": 1})
    assert len(shop.runs()) == 2


@pytest.mark.parametrize(
    ("price", "held"), [(0.25, 250_000), (1, 1_000_000), (0.0101, 10_100), (2.3, 2_300_000), (0.1 + 0.2, None)]
)
def test_dpp_82_a_price_is_the_number_as_it_was_written(shop: Shop, price: float, held: int | None) -> None:
    answer = submit(shop, DECISION | {"max_cost_usd": price})
    if held is None:
        assert refusal(answer)["field"] == "max_cost_usd"
        shop.nothing_happened()
    else:
        assert [run.reservation_max_cost_usd_micros for run in shop.runs()] == [held]


WRONG: list[Any] = [
    ("dpp_decision_run_submit", DECISION | {"max_cost_usd": "0.25"}, "max_cost_usd"),
    ("dpp_decision_run_submit", DECISION | {"max_cost_usd": 0.25001}, "max_cost_usd"),
    ("dpp_decision_run_submit", DECISION | {"max_cost_usd": 0.001}, "max_cost_usd"),
    ("dpp_decision_run_submit", DECISION | {"max_cost_usd": True}, "max_cost_usd"),
    ("dpp_decision_run_submit", DECISION | {"max_cost_usd": 1e25}, "max_cost_usd"),
    ("dpp_decision_run_submit", DECISION | {"max_cost_usd": 1e308}, "max_cost_usd"),
    ("dpp_decision_run_submit", DECISION | {"max_cost_usd": 10**400}, "max_cost_usd"),
    ("dpp_decision_run_submit", DECISION | {"max_cost_usd": 9_007_199_254.75, "confirm": True}, "max_cost_usd"),
    ("dpp_decision_run_submit", DECISION | {"timebox_sec": 91}, "timebox_sec"),
    pytest.param("dpp_decision_run_submit", DECISION | {"colour": "blue"}, "colour", id="colour"),
    ("dpp_decision_run_submit", DECISION | {"question": ""}, "question"),
    ("dpp_decision_run_submit", DECISION | {"idempotency_key": "short"}, "idempotency_key"),
    ("dpp_decision_run_submit", {"max_cost_usd": 0.25}, "question"),
    ("dpp_url_run_submit", URL_RUN | {"urls": []}, "urls"),
    ("dpp_url_run_submit", URL_RUN | {"urls": ["https://a/"] * 31}, "urls"),
    ("dpp_ocr_run_submit", {"input_files": ["receipt.png"], "max_cost_usd": 0.25}, "input_files[0]"),
    ("dpp_ocr_run_submit", {"input_files": ["uploads/x"], "max_cost_usd": 0.25, "language": "fra"}, "language"),
    (
        "dpp_ocr_run_submit",
        {"input_files": ["a"], "max_cost_usd": 0.25, "min_reliability_score": 1},
        "min_reliability_score",
    ),
    ("dpp_estimate", {"pack_type": "astrology", "inputs": {}}, "pack_type"),
    ("dpp_upload_create", {"filename": "../a", "content_type": "image/png", "size_bytes": 1}, "filename"),
    ("dpp_run_get", {"run_id": "x", "wait_seconds": 46}, "wait_seconds"),
]


@pytest.mark.parametrize(("name", "arguments", "field"), WRONG)
def test_dpp_70_a_wrong_argument_is_named_as_its_caller_knows_it(
    shop: Shop, name: str, arguments: dict[str, Any], field: str
) -> None:
    content = refusal(submit(shop, arguments, name))
    assert content["reason_code"] == "VALIDATION_FAILED"
    assert field in [error["field"] for error in content["errors"]]
    assert content["field"] == content["errors"][0]["field"]
    shop.nothing_happened()


def test_dpp_70_a_refusal_of_the_use_case_is_the_tools_too(shop: Shop) -> None:
    take_balance_to(shop.tenant, 0)
    assert refusal(submit(shop))["reason_code"] == "BUDGET_DRAINED"
    take_balance_to(shop.tenant, recovery.FUNDS_MICROS)
    submit(shop, DECISION | {"idempotency_key": "order-0003"})
    content = refusal(submit(shop, DECISION | {"question": "Else?", "idempotency_key": "order-0003"}))
    assert (content["reason_code"], "run_id" in content) == ("IDEMPOTENCY_CONFLICT", True)


@pytest.mark.contract("CAP-03")
def test_cap_03_an_agent_is_told_of_the_cap_as_over_http(shop: Shop) -> None:
    put_in_force(shop.tenant, limits={"day": PRICE_MICROS - 1})
    content = refusal(submit(shop))
    assert content["reason_code"] == "SPEND_CAP_REACHED"
    assert [content["cap"]] == shop.get("/v1/budget").json()["caps"]
    assert "0.2499 USD a day itself" in content["detail"]
    shop.nothing_happened()


def test_dpp_82_what_is_in_progress_says_when_to_repeat(shop: Shop) -> None:
    redis.redis_client().set(f"idem_lock:{shop.tenant.tenant_id}:order-0004", "another's", ex=5)
    content = refusal(submit(shop, DECISION | {"idempotency_key": "order-0004"}))
    assert (content["reason_code"], content["retry_after"]) == ("IDEMPOTENCY_IN_PROGRESS", 1)


# A person's word.


def test_dpp_82_above_the_line_a_person_must_agree(shop: Shop) -> None:
    content = refusal(submit(shop, DECISION | {"max_cost_usd": 10.0001}))
    assert (content["reason_code"], content["field"]) == ("CONFIRMATION_REQUIRED", "confirm")
    shop.nothing_happened()
    content = refusal(submit(shop, DECISION | {"max_cost_usd": 10.0001, "confirm": True}))
    assert content["reason_code"] == "BUDGET_DRAINED"
    assert "run_id" in content_of(submit(shop, DECISION | {"max_cost_usd": 10.0}))


# The other tools.


def test_dpp_82_a_result_stands_inline_up_to_eight_kilobytes(shop: Shop, worker_here: Any) -> None:
    small = {"question": "Who pays?", "context": "The tenant pays. Nobody else does.", "max_cost_usd": 0.25}
    run = Run.objects.get(run_id=content_of(submit(shop, small))["run_id"])
    assert "reason_code" not in content_of(post(shop, call("dpp_run_get", {"run_id": str(run.run_id)})))
    work.execute(run)
    content = content_of(post(shop, call("dpp_run_get", {"run_id": str(run.run_id)})))
    assert content["status"] == "COMPLETED"
    assert "tenant pays" in json.dumps(content["result"]["data"])
    document = shop.get(f"{RUNS}/{run.run_id}").json()
    assert content["result"]["sha256"] == document["result"]["sha256"]
    large = tools.tool_answered(
        tools.TOOLS["dpp_run_get"], document | {"result": document["result"] | {"data": "x" * 8_191}}, {}
    )
    assert (large.content["result"]["data"], large.content["result"]["data_omitted"]) == (None, "TOO_LARGE")
    assert large.content["result"]["presigned_url"]
    fits = tools.tool_answered(
        tools.TOOLS["dpp_run_get"], document | {"result": document["result"] | {"data": "x" * 8_190}}, {}
    )
    assert fits.content["result"]["data"] == "x" * 8_190


def test_dpp_82_cancel_estimate_budget_and_upload(shop: Shop) -> None:
    run_id = content_of(submit(shop))["run_id"]
    canceled = content_of(post(shop, call("dpp_run_cancel", {"run_id": run_id})))
    assert (canceled["status"], canceled["result"]["reason_code"]) == ("FAILED", "CANCELED_BY_OWNER")
    again = refusal(post(shop, call("dpp_run_cancel", {"run_id": run_id})))
    assert (again["reason_code"], again["run_id"]) == ("RUN_NOT_CANCELABLE", run_id)
    estimated = content_of(post(shop, call("dpp_estimate", {"pack_type": "decision", "inputs": {"question": "a"}})))
    assert estimated["smallest_hold_usd"] == "0.0500"
    budget = content_of(post(shop, call("dpp_budget_get")))
    assert budget["balance_usd_micros"] == recovery.FUNDS_MICROS
    assert budget == shop.get("/v1/budget").json()
    upload = {"filename": "a.png", "content_type": "image/png", "size_bytes": 3}
    room = content_of(post(shop, call("dpp_upload_create", upload)))
    assert room["key"].startswith(f"uploads/{shop.tenant.tenant_id}/")


@pytest.mark.parametrize("name", ["dpp_run_get", "dpp_run_cancel"])
def test_dpp_82_anothers_run_an_unknown_one_and_a_malformed_id_are_one_answer(shop: Shop, name: str) -> None:
    theirs = content_of(submit(a_shop()))["run_id"]
    answers = []
    for run_id in (theirs, "01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e", "x/../../budget"):
        content = refusal(post(shop, call(name, {"run_id": run_id})))
        content.pop("trace_id")
        answers.append(content)
    assert answers == [{"reason_code": "NOT_FOUND", "detail": "There is nothing here for this key."}] * 3
    assert gear.row(Run.objects.get(run_id=theirs).run_id).status == "QUEUED"


# Who may ask, and how often.


def test_dpp_82_without_a_valid_key_it_is_a_401_of_http(shop: Shop) -> None:
    for headers in ({"Authorization": ""}, {"Authorization": f"Bearer dpp_AAAAAAAA_{'B' * 43}"}):
        answer = post(shop, message("tools/list"), **headers)
        assert (answer.status_code, answer.json()["reason_code"]) == (401, "AUTH_INVALID")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_dpp_82_scopes_are_those_of_rest(shop: Shop) -> None:
    operator = post(shop, message("tools/list"), **bearer(an_operator_key()))
    assert (operator.status_code, operator.json()["reason_code"]) == (403, "SCOPE_MISSING")
    reader = bearer(a_key(shop.tenant, scopes=[Scope.RUNS_READ]))
    assert result_of(post(shop, message("tools/list"), **reader))["tools"]
    assert refusal(post(shop, call("dpp_decision_run_submit", DECISION), **reader))["reason_code"] == "SCOPE_MISSING"
    shop.nothing_happened()


def test_dpp_82_each_message_takes_one_token_of_its_bucket(valkey: Any, aws: str, transactional_db: None) -> None:
    recovery.empty_queues()
    shop = a_shop(submit_rate_per_minute=2, poll_rate_per_minute=2, opens=True)
    submit(shop)
    submit(shop, DECISION | {"question": "Else?"})
    beyond = refusal(submit(shop, DECISION | {"question": "More?"}))
    assert (beyond["reason_code"], beyond["retry_after"]) == ("RATE_LIMITED", 30)
    refusal(submit(shop, DECISION | {"colour": "blue"}))
    assert result_of(post(shop, message("tools/list")))["tools"]
    assert refusal(submit(shop, DECISION | {"colour": "blue"}))["reason_code"] == "RATE_LIMITED"
    answer = post(shop, message("tools/list"))
    assert (answer.status_code, answer.json()["reason_code"]) == (429, "RATE_LIMITED")


UNASKED = {
    "no name": (message("tools/call", {"name": 5}), {}),
    "no params": (message("tools/call"), {}),
    "another site's page": (call("dpp_budget_get"), {"Origin": "https://evil.example"}),
}


@pytest.mark.parametrize("what", UNASKED)
def test_dpp_82_a_call_that_comes_to_no_tool_takes_a_token_too(
    valkey: Any, aws: str, transactional_db: None, what: str
) -> None:
    shop = a_shop(poll_rate_per_minute=2, opens=True)
    body, headers = UNASKED[what]
    answers = [post(shop, body, **headers) for _ in range(3)]
    assert 429 not in {answer.status_code for answer in answers[:2]}
    assert (answers[2].status_code, answers[2].json()["reason_code"]) == (429, "RATE_LIMITED")


def test_dpp_82_a_message_of_many_bytes_does_not_wait(shop: Shop) -> None:
    run_id = content_of(submit(shop))["run_id"]
    asked = {"run_id": run_id, "wait_seconds": 30}
    began = time.monotonic()
    answer = post(shop, call("dpp_run_get", asked, _meta={"padding": "x" * 70_000}))
    assert content_of(answer)["status"] == "QUEUED"
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("run_id", ["\u00e9", "\ud55c\uae00", "../uploads", "a?wait=9", "x" * 5_000])
def test_dpp_82_a_run_may_be_called_anything_and_is_not_found(shop: Shop, run_id: str) -> None:
    for name in ("dpp_run_get", "dpp_run_cancel"):
        assert refusal(post(shop, call(name, {"run_id": run_id})))["reason_code"] == "NOT_FOUND"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 400),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[oops"}, 403),
        ({"Origin": "http://testserver"}, 200),
    ],
)
def test_dpp_82_only_our_hosts_are_served(shop: Shop, headers: dict[str, str], status: int) -> None:
    answer = post(shop, call("dpp_decision_run_submit", DECISION), **headers)
    assert answer.status_code == status
    if status != 200:
        shop.nothing_happened()


def test_dpp_82_who_does_not_say_what_she_accepts_is_answered(shop: Shop) -> None:
    body = json.dumps(message("tools/list"))
    answer = shop.client.post("/mcp", body, content_type="application/json", headers=bearer(shop.issued))
    assert answer.status_code == 200
    assert len(answer.json()["result"]["tools"]) == 8


@pytest.mark.parametrize("method", ["get", "put", "delete", "patch"])
def test_dpp_82_there_is_no_stream_and_no_session(shop: Shop, method: str) -> None:
    answer = getattr(shop.client, method)("/mcp", headers=bearer(shop.issued) | {"Accept": "text/event-stream, */*"})
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


# Nonsense.

GARBAGE: dict[str, tuple[Any, int]] = {
    "no JSON": (b"{", 400),
    "nothing": (b"", 400),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', 400),
    "a name twice": (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', 400),
    "too deep": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 40 + b"1" + b"}" * 41, 400),
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]', 400),
    "a number": (b"1", 400),
    "no version": (b'{"id":1,"method":"ping"}', 400),
    "another version": (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400),
    "no method": (b'{"jsonrpc":"2.0","id":1}', 400),
    "a method that is a number": (b'{"jsonrpc":"2.0","id":1,"method":5}', 400),
    "params that are a list": (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}', 400),
    "an empty object": (b"{}", 400),
    "an odd id": (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', 400),
    "huge": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"' + b"x" * 1_048_576 + b'"}}', 413),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_dpp_82_nonsense_is_an_error_of_the_protocol_and_changes_nothing(shop: Shop, kind: str) -> None:
    body, status = GARBAGE[kind]
    answer = post(shop, body)
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json()["error"]["code"] in (-32700, -32600)
    assert len(answer.json()["error"]["message"]) < 200
    assert answer.json()["id"] is None
    shop.nothing_happened()


def test_dpp_82_what_the_protocol_does_not_know_is_said(shop: Shop) -> None:
    assert post(shop, message("prompts/list")).json()["error"]["code"] == -32601
    assert post(shop, call("dpp_astrology")).json()["error"]["code"] == -32602
    assert post(shop, message("tools/call", {"name": 1})).json()["error"]["code"] == -32602
    assert post(shop, message("tools/call", {"name": "dpp_budget_get", "arguments": []})).json()["error"]
    unknown = post(shop, message("tools/list"), **{"MCP-Protocol-Version": "2099-01-01"})
    assert (unknown.status_code, "error" in unknown.json()) == (400, True)
    notified = post(shop, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (notified.status_code, notified.content) == (202, b"")
    bought = post(shop, {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "dpp_decision_run_submit"}})
    assert bought.status_code == 202
    shop.nothing_happened()
