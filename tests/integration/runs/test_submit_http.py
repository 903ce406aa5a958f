"""`POST /v1/runs` over HTTP against the real services: what is answered, what stands afterwards, what it took."""

import json
from typing import Any

import pytest

from dpp_project import constants
from dpp_project.stores import redis
from runs.models import RunInputs
from runs.submit.request_hash import MAX_INPUTS_BYTES
from tenants.scopes import Scope
from tests.gear import round_trips
from tests.gear.builders import recovery
from tests.gear.builders.shop import PRICE_MICROS, RUNS, Shop, a_body, a_request_key, messages, take_balance_to
from tests.gear.builders.tenants import a_key, an_operator_key, bearer

COST_HEADERS = ("X-DPP-Cost-Reserved", "X-DPP-Cost-Used", "X-DPP-Budget-Remaining", "X-DPP-Tokens-Consumed")


def costs(response: Any) -> tuple[str, ...]:
    return tuple(response.headers[name] for name in COST_HEADERS)


def fields(response: Any) -> list[str]:
    return [error["field"] for error in response.json()["errors"]]


def test_dpp_01_a_submit_is_answered_with_the_receipt(shop: Shop) -> None:
    response = shop.submit(headers={"X-Trace-Id": "trace-7"})
    (run,) = shop.runs()
    assert response.status_code == 202
    assert response.json() == {
        "run_id": str(run.run_id),
        "status": "QUEUED",
        "reservation": {"max_cost_usd": "0.2500", "timebox_sec": 90, "min_reliability_score": 0.8},
        "poll": {
            "href": f"/v1/runs/{run.run_id}",
            "wait_href": f"/v1/runs/{run.run_id}?wait=55",
            "recommended_interval_ms": 1500,
        },
        "meta": {"trace_id": "trace-7", "profile_version": "PROFILE_DPP_0_4_2_2"},
    }
    assert response.headers["Location"] == f"/v1/runs/{run.run_id}"
    assert response.headers["Content-Type"] == "application/json"
    assert "Idempotent-Replayed" not in response.headers
    assert costs(response) == ("0.2500", "0.0000", "9.7500", "0")


def test_dpp_01_everything_that_a_run_needs_stands_afterwards(shop: Shop) -> None:
    key = a_request_key()
    body = a_body(
        inputs={"sleep_ms": 5, "cost_usd": "0.0100"},
        reservation={"max_cost_usd": "0.2500", "timebox_sec": 30, "min_reliability_score": 0.25},
        options={"inline": 1},
        meta={"profile_version": "PROFILE_X"},
        client={"client_version": "1.2"},
    )
    shop.submit(body, key=key, headers={"X-Trace-Id": "trace-8"})
    (run,) = shop.runs()
    assert (run.status, run.money_state, run.version) == ("QUEUED", "RESERVED", 1)
    assert (run.pack_type, run.profile_version, run.trace_id) == ("probe", "PROFILE_X", "trace-8")
    assert (run.idempotency_key, len(run.payload_hash)) == (key, 64)
    assert (run.reservation_max_cost_usd_micros, run.minimum_fee_usd_micros) == (PRICE_MICROS, 5_000)
    assert (run.retention_until - run.created_at).days == constants.RETENTION_DAYS
    sent = RunInputs.objects.get(run=run)
    assert sent.inputs == {
        "sleep_ms": 5,
        "cost_usd": "0.0100",
        "fail": False,
        "exit": None,
        "alloc_mb": 0,
        "spawn_child": False,
    }
    assert (sent.timebox_sec, sent.min_reliability_score, sent.inline) == (30, 0.25, True)
    assert shop.holds() == {str(run.run_id): PRICE_MICROS}
    assert shop.balance_micros() == recovery.FUNDS_MICROS - PRICE_MICROS
    mapping = f"idem:{shop.tenant.tenant_id}:{key}"
    assert redis.redis_client().hgetall(mapping) == {
        "run_id": str(run.run_id),
        "payload_hash": run.payload_hash,
        "created_at_ms": str(int(run.created_at.timestamp() * 1_000)),
    }
    assert 0 < constants.IDEMPOTENCY_MAPPING_TTL_SECONDS - redis.redis_client().ttl(mapping) + 2 < 10
    assert shop.redis_keys("idem_lock*") == []
    recovery.law_holds(shop.tenant)


@pytest.mark.contract("DPP-38")
def test_dpp_01_one_message_wakes_a_worker(shop: Shop) -> None:
    run_id = shop.submit().json()["run_id"]
    (message,) = messages()
    assert set(message) == {"run_id", "tenant_id", "pack_type", "enqueued_at", "schema_version"}
    assert (message["run_id"], message["tenant_id"]) == (run_id, shop.tenant.tenant_id)


@pytest.mark.contract("DPP-25")
def test_dpp_01_the_trace_is_taken_from_the_header_then_the_body_then_made(shop: Shop) -> None:
    both = shop.submit(a_body(meta={"trace_id": "of-body"}), headers={"X-Trace-Id": "of-header"})
    body = shop.submit(a_body(meta={"trace_id": "of body!"}))
    neither = shop.submit(a_body(meta={"trace_id": "!?"}))
    assert [both.json()["meta"]["trace_id"], both.headers["X-Trace-Id"]] == ["of-header"] * 2
    assert [body.json()["meta"]["trace_id"], body.headers["X-Trace-Id"]] == ["ofbody"] * 2
    made = neither.json()["meta"]["trace_id"]
    assert made.startswith("t_")
    assert neither.headers["X-Trace-Id"] == made
    assert [run.trace_id for run in shop.runs()] == ["of-header", "ofbody", made]


def test_submit_takes_three_trips_two_statements_and_one_request(shop: Shop) -> None:
    """On the warm path: the key is remembered, connections stand, scripts are loaded."""
    shop.submit()
    with round_trips.counted() as seen:
        assert shop.submit().status_code == 202
    assert seen.redis == 3
    assert [sql.strip().split()[0] for sql in seen.sql] == ["WITH", "UPDATE"]
    assert seen.sqs == 1


def test_submit_a_replay_takes_two_trips_one_statement_and_no_request(shop: Shop) -> None:
    key = a_request_key()
    shop.submit(key=key)
    shop.submit(key=key)
    with round_trips.counted() as seen:
        assert shop.submit(key=key).headers["Idempotent-Replayed"] == "true"
    assert seen.redis == 2
    assert [sql.split()[0] for sql in seen.sql] == ["SELECT"]
    assert seen.sqs == 0


WRONG: list[tuple[dict[str, Any], str]] = [
    (a_body(pack_type="astrology"), "pack_type"),
    (a_body(colour="blue"), "colour"),
    (a_body(reservation={"max_cost_usd": "0.25"}), "reservation.max_cost_usd"),
    (a_body(reservation={"max_cost_usd": 0.25}), "reservation.max_cost_usd"),
    (a_body(reservation={"max_cost_usd": "NaN"}), "reservation.max_cost_usd"),
    (a_body(reservation={"max_cost_usd": "0.0000"}), "reservation.max_cost_usd"),
    (a_body(reservation={"max_cost_usd": "9007199254.7410"}), "reservation.max_cost_usd"),
    (a_body(reservation={"max_cost_usd": "0.2500", "timebox_sec": 91}), "reservation.timebox_sec"),
    (a_body(reservation={"max_cost_usd": "0.2500", "min_reliability_score": 2}), "reservation.min_reliability_score"),
    (a_body(inputs={"sleep_ms": "x"}), "inputs.sleep_ms"),
    (a_body(inputs=None), "inputs"),
    (a_body(artifacts={"include_markdown": True}), "artifacts"),
    ({}, "pack_type"),
]


@pytest.mark.parametrize(("body", "field"), WRONG)
def test_dpp_02_a_wrong_body_is_422_by_field_and_leaves_nothing(shop: Shop, body: dict[str, Any], field: str) -> None:
    response = shop.submit(body)
    assert response.status_code == 422
    assert response.headers["Content-Type"] == "application/problem+json"
    assert field in fields(response)
    shop.nothing_happened()


@pytest.mark.parametrize("key", ["", "1234567", "k" * 65, "with space in it", "tab\tinside"])
def test_dpp_02_a_wrong_key_is_422_and_leaves_nothing(shop: Shop, key: str) -> None:
    response = shop.submit(key=key)
    assert (response.status_code, fields(response)) == (422, ["header.Idempotency-Key"])
    shop.nothing_happened()


def test_dpp_02_no_key_is_422(shop: Shop) -> None:
    response = shop.client.post(
        RUNS, data=json.dumps(a_body()), content_type="application/json", headers=bearer(shop.issued)
    )
    assert (response.status_code, fields(response)) == (422, ["header.Idempotency-Key"])
    shop.nothing_happened()


@pytest.mark.parametrize(
    ("content", "content_type", "status", "reason"),
    [
        (b"{", "application/json", 400, "MALFORMED_REQUEST"),
        (b'{"a":1,"a":2}', "application/json", 400, "MALFORMED_REQUEST"),
        (b"NaN", "application/json", 400, "MALFORMED_REQUEST"),
        (b"\xff", "application/json", 400, "MALFORMED_REQUEST"),
        (b" " * 1_048_577, "application/json", 413, "PAYLOAD_TOO_LARGE"),
        (b"{}", "text/plain", 415, "UNSUPPORTED_MEDIA_TYPE"),
        (b"pack_type=probe", "application/x-www-form-urlencoded", 415, "UNSUPPORTED_MEDIA_TYPE"),
    ],
)
def test_dpp_02_what_cannot_be_read_is_400_413_or_415(
    shop: Shop, content: bytes, content_type: str, status: int, reason: str
) -> None:
    response = shop.client.post(
        RUNS,
        data=content,
        content_type=content_type,
        headers=bearer(shop.issued) | {"Idempotency-Key": a_request_key()},
    )
    assert (response.status_code, response.json()["reason_code"]) == (status, reason)
    assert costs(response)[:2] == ("0.0000", "0.0000")
    shop.nothing_happened()


def test_dpp_02_inputs_over_256_kb_are_422(shop: Shop) -> None:
    response = shop.submit(a_body(inputs={"sleep_ms": 0, "x" * MAX_INPUTS_BYTES: 1}))
    assert response.status_code == 422
    shop.nothing_happened()


@pytest.mark.contract("DPP-10", "DPP-02")
def test_submit_a_refused_request_costs_a_token_like_any_other(shop: Shop) -> None:
    before = int(shop.submit({}).headers["X-RateLimit-Remaining"])
    assert int(shop.submit(key="short").headers["X-RateLimit-Remaining"]) <= before


def test_dpp_08_without_the_money_it_is_402_and_nothing_stands(shop: Shop) -> None:
    take_balance_to(shop.tenant, PRICE_MICROS - 1)
    key = a_request_key()
    response = shop.submit(key=key)
    assert (response.status_code, response.json()["reason_code"]) == (402, "BUDGET_DRAINED")
    assert costs(response) == ("0.0000", "0.0000", "0.2499", "0")
    assert shop.runs() == []
    assert (shop.inputs(), shop.holds(), messages()) == (0, {}, [])
    assert shop.redis_keys("idem*") == []
    recovery.law_holds(shop.tenant)


def test_dpp_08_the_same_key_works_after_a_top_up(shop: Shop) -> None:
    take_balance_to(shop.tenant, PRICE_MICROS - 1)
    key = a_request_key()
    assert shop.submit(key=key).status_code == 402
    take_balance_to(shop.tenant, PRICE_MICROS)
    response = shop.submit(key=key)
    assert response.status_code == 202
    assert costs(response) == ("0.2500", "0.0000", "0.0000", "0")
    assert len(shop.runs()) == 1
    assert len(messages()) == 1


@pytest.mark.contract("DPP-10")
def test_submit_over_the_rate_is_429_and_leaves_nothing(shop: Shop) -> None:
    slow = Shop(tenant=shop.tenant, issued=shop.issued)
    type(shop.tenant).objects.filter(pk=shop.tenant.pk).update(submit_rate_per_minute=1)
    assert slow.submit().status_code == 202
    messages()
    key = a_request_key()
    response = slow.submit(key=key)
    assert (response.status_code, response.json()["reason_code"]) == (429, "RATE_LIMITED")
    assert response.headers["Retry-After"] == "30"
    assert response.headers["X-RateLimit-Remaining"] == "0"
    assert response.headers["X-DPP-Budget-Remaining"] == "9.7500"
    assert len(slow.runs()) == 1
    assert messages() == []
    assert slow.redis_keys("idem_lock*") == []


@pytest.mark.contract("DPP-10")
def test_submit_a_replay_counts_towards_the_rate_and_nothing_else(shop: Shop) -> None:
    key = a_request_key()
    first, again = shop.submit(key=key), shop.submit(key=key)
    assert int(again.headers["X-RateLimit-Remaining"]) <= int(first.headers["X-RateLimit-Remaining"])
    assert shop.balance_micros() == recovery.FUNDS_MICROS - PRICE_MICROS
    assert len(messages()) == 1


@pytest.mark.contract("DPP-11")
def test_submit_needs_the_scope_and_a_tenants_key(shop: Shop) -> None:
    reader = a_key(shop.tenant, scopes=[Scope.RUNS_READ])
    for issued in (reader, an_operator_key()):
        response = Shop(tenant=shop.tenant, issued=issued).submit()
        assert (response.status_code, response.json()["reason_code"]) == (403, "SCOPE_MISSING")
        assert costs(response) == ("0.0000", "0.0000", "0.0000", "0")
    shop.nothing_happened()


@pytest.mark.contract("DPP-24")
def test_dpp_24_an_answer_without_a_key_tells_costs_too(shop: Shop) -> None:
    response = shop.client.post(RUNS)
    assert response.status_code == 401
    assert costs(response) == ("0.0000", "0.0000", "0.0000", "0")


@pytest.mark.contract("DPP-73")
def test_dpp_73_inputs_and_keys_stay_out_of_the_logs(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.submit(a_body(inputs={"cost_usd": "123456.7890"}, client={"note": "canary-in-client"}))
    shop.submit(a_body(inputs={"canary-in-inputs": 1}))
    logged = "\n".join(str(record.msg) for record in caplog.records)
    assert '"replayed": False' in logged.replace("'", '"')
    for canary in ("123456.7890", "canary-in-client", "canary-in-inputs", shop.issued.plaintext):
        assert canary not in logged
