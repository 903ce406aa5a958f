"""`?wait=N`: the same document as soon as the run has ended, and nothing held meanwhile (DPP-80)."""

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from django.db.models.functions import Now

from runs.models import Run
from tenants.scopes import Scope
from tests.gear.builders.shop import RUNS, Shop, a_body, a_request_key, a_shop
from tests.gear.builders.tenants import a_key
from tests.gear.builders.waiting import (
    a_get,
    begun,
    documents,
    failed,
    left,
    queued,
    read,
    started,
    wait_for_a_look,
    waiting,
)
from tests.gear.servers.live_api import Api, an_api
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.contract("DPP-80"), pytest.mark.django_db(transaction=True)]

ONE_ADDRESS: dict[str, dict[str, float]] = {"connections": {"per_address": 5_000}, "strangers": {"burst": 5_000}}
SOON_SECONDS = 5.0
"""On a busy machine; bench/waiting.py has the figures."""


@pytest.fixture(scope="module")
def api(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One thread: what held it would stop everything."""
    with an_api(tmp_path_factory.mktemp("waiting"), threads=1, limits=ONE_ADDRESS) as api:
        yield api


def test_dpp_80_it_answers_as_soon_as_the_run_has_ended_and_not_at_the_steps_before(api: Api, shop: Shop) -> None:
    run = queued(shop)
    with ExitStack() as stack:
        clients = waiting(api, stack, shop, run, count=5)
        run = started(run)
        wait_for_a_look()
        wait_for_a_look()  # by now all has been told that the one before it found
        assert api.ask(a_get(f"{RUNS}/{run.run_id}", shop.issued)).status == 200, "the one thread is free"
        assert all(client.is_waiting() for client in clients), "a step on the way is not the end"
        ended = time.monotonic()
        failed(run)
        answers = [client.receive() for client in clients]
        assert time.monotonic() - ended < SOON_SECONDS
    for answer in answers:
        document = read(answer)
        assert (answer.status, document["status"], document["money_state"]) == (200, "FAILED", "SETTLED")
        assert document["cost"]["used_usd_micros"] == 5_000
        assert answer.header("x-dpp-cost-used-usd-micros") == "5000"
        assert answer.header("x-dpp-budget-remaining-usd-micros") == str(shop.balance_micros())
        assert answer.header("preference-applied") is answer.header("retry-after") is None
    plain = read(api.ask(a_get(f"{RUNS}/{run.run_id}", shop.issued)))
    assert {name: document[name] for name in plain} == plain, "the same document as ever"


def test_dpp_80_at_the_end_of_the_wait_it_says_how_the_run_stands_without_the_database(api: Api, shop: Shop) -> None:
    run = queued(shop)
    began = time.monotonic()
    answer = api.ask(a_get(f"{RUNS}/{run.run_id}?wait=1", shop.issued))
    assert 1 <= time.monotonic() - began < 1 + SOON_SECONDS
    assert (answer.status, read(answer)["status"]) == (200, "QUEUED")
    assert answer.header("x-dpp-cost-reserved-usd-micros") == "250000"
    (line,) = [one for one in api.log_lines("request") if one["path"].endswith(str(run.run_id))]
    assert (line["status"], line["wait"], line["trace_id"]) == (200, "time over", answer.header("x-trace-id"))
    assert 900 <= line["waited_ms"] <= 1_000 * (1 + SOON_SECONDS)
    assert line["ms"] < 900, "what was asked to be waited is none of ours"


def test_dpp_80_an_ended_run_answers_at_once_and_takes_no_place(api: Api, shop: Shop) -> None:
    run = failed(queued(shop))
    before = begun(api)
    for seconds in ("55", "56", "9" * 40):
        answer = api.ask(a_get(f"{RUNS}/{run.run_id}", shop.issued, f"Prefer: respond-async, wait={seconds}"))
        assert (answer.status, read(answer)["status"]) == (200, "FAILED")
        assert answer.header("preference-applied") == "wait=55"
    assert begun(api) == before


@pytest.mark.parametrize(
    ("preference", "applied"),
    [("wait=1", "wait=1"), ('respond-async, WAIT="1"', "wait=1"), ("wait=0", None), ("wait=soon", None), ("", None)],
)
def test_dpp_80_a_preference_is_heeded_and_said_so_or_ignored(
    api: Api, shop: Shop, preference: str, applied: str | None
) -> None:
    run, before = queued(shop), begun(api)
    answer = api.ask(a_get(f"{RUNS}/{run.run_id}", shop.issued, f"Prefer: {preference}"))
    assert (answer.status, answer.header("preference-applied")) == (200, applied)
    wait_until(lambda: begun(api) == before + (applied is not None))


@pytest.mark.parametrize("query", ["wait=0", "wait=56", "wait=-1", "wait=x", "wait=", "wait=1&wait=2", "waits=5"])
def test_dpp_80_a_wrong_wait_names_its_field_and_does_not_wait(api: Api, shop: Shop, query: str) -> None:
    run, before = queued(shop), begun(api)
    answer = api.ask(a_get(f"{RUNS}/{run.run_id}?{query}", shop.issued))
    assert answer.status == 422
    assert [one["field"] for one in read(answer)["errors"]] == [f"query.{query.partition('=')[0]}"]
    assert begun(api) == before


def test_dpp_80_anothers_run_is_not_waited_for(api: Api, shop: Shop) -> None:
    run, other, before = queued(shop), a_shop(), begun(api)
    for run_id in (run.run_id, uuid.uuid4(), "x"):
        answer = api.ask(a_get(f"{RUNS}/{run_id}?wait=20", other.issued))
        assert (answer.status, read(answer)["reason_code"]) == (404, "NOT_FOUND")
    assert begun(api) == before


def test_dpp_80_a_run_that_is_canceled_or_that_goes_meanwhile_is_answered_as_it_is(api: Api, shop: Shop) -> None:
    canceled, gone = queued(shop), queued(shop)
    with ExitStack() as stack:
        clients = [*waiting(api, stack, shop, canceled), *waiting(api, stack, shop, gone)]
        assert shop.cancel(str(canceled.run_id)).status_code == 200
        document = read(clients[0].receive())
        assert (document["status"], document["result"]["reason_code"]) == ("FAILED", "CANCELED_BY_OWNER")
        Run.objects.filter(run_id=gone.run_id).update(retention_until=Now())
        failed(gone)
        answer = clients[1].receive()
    assert (answer.status, read(answer)["reason_code"]) == (410, "GONE")
    assert read(answer)["trace_id"] == answer.header("x-trace-id")


def test_dpp_80_each_wait_costs_one_poll(api: Api, shop: Shop) -> None:
    run = queued(shop)
    first = api.ask(a_get(f"{RUNS}/{run.run_id}?wait=1", shop.issued))
    assert first.header("ratelimit") == '"poll";r=59999;t=1'


def test_dpp_80_the_greedy_are_answered_at_once_and_the_others_wait_on(api: Api, shop: Shop) -> None:
    run, other = queued(shop), a_shop()
    others = queued(other)
    with ExitStack() as stack:
        held = waiting(api, stack, shop, run, count=50)
        theirs = waiting(api, stack, other, others)
        began = time.monotonic()
        refused = api.ask(a_get(f"{RUNS}/{run.run_id}", shop.issued, "Prefer: wait=20"))
        assert time.monotonic() - began < SOON_SECONDS
        assert (refused.status, read(refused)["status"]) == (200, "QUEUED")
        assert (refused.header("retry-after"), refused.header("preference-applied")) == ("2", None)
        assert all(client.is_waiting() for client in [*held, *theirs])
        before = left(api)
        held.pop().socket.close()
        wait_until(lambda: left(api) == before + 1, what="the place of the client that left")
        (again,) = waiting(api, stack, shop, run)
        failed(run)
        assert {one["status"] for one in documents([*held, again])} == {"FAILED"}
        failed(others)
        assert documents(theirs)[0]["status"] == "FAILED"


def test_dpp_80_a_server_that_stops_answers_all_who_wait_at_once(tmp_path: Path, shop: Shop) -> None:
    run = queued(shop)
    with an_api(tmp_path, threads=2, limits=ONE_ADDRESS) as api, ExitStack() as stack:
        clients = waiting(api, stack, shop, run, count=50)
        stopped = time.monotonic()
        api.stop()
        answers = documents(clients)
        assert time.monotonic() - stopped < 5.0
        assert {one["status"] for one in answers} == {"QUEUED"}
        for client in clients:
            client.socket.close()
        assert api.process.wait(10) == 0


def a_submit(shop: Shop, query: str, key: str, **changes: object) -> bytes:
    body = json.dumps(a_body(**changes)).encode()
    lines = [
        f"POST {RUNS}{query} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {shop.issued.plaintext}",
        f"Idempotency-Key: {key}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def test_dpp_80_a_submit_that_waits_has_the_run_beside_the_receipt(api: Api, shop: Shop) -> None:
    key = a_request_key()
    with api.connect() as client:
        before = begun(api)
        client.send(a_submit(shop, "?wait=20", key))
        wait_until(lambda: begun(api) > before, what="the wait")
        (run,) = shop.runs()
        failed(run)
        answer = client.receive()
    both = read(answer)
    assert (answer.status, both["run"]["status"], both["status"]) == (200, "FAILED", "QUEUED")
    assert answer.header("location") == f"{RUNS}/{run.run_id}"
    assert answer.header("x-dpp-cost-used-usd-micros") == "5000"
    replayed = api.ask(a_submit(shop, "?wait=20", key))
    assert (replayed.status, replayed.header("idempotent-replayed")) == (200, "true")
    assert read(replayed) == both
    plain = api.ask(a_submit(shop, "", key))
    receipt = read(plain)
    assert plain.status == 202
    assert {**receipt, "run": both["run"]} == both
    assert receipt["poll"] == {
        "href": f"{RUNS}/{run.run_id}",
        "wait_href": f"{RUNS}/{run.run_id}?wait=55",
        "recommended_interval_ms": 1500,
    }
    assert len(shop.runs()) == 1


@pytest.mark.contract("DPP-11")
def test_dpp_80_a_submit_that_waits_shows_the_run_to_a_key_that_reads_runs(api: Api, shop: Shop) -> None:
    """One that only buys has the receipt: it may have another key's purchase answered once more."""
    key = a_request_key()
    assert api.ask(a_submit(shop, "", key)).status == 202
    failed(shop.runs()[0])
    assert api.ask(a_submit(shop, "?wait=1", key)).status == 200
    buys = replace(shop, issued=a_key(shop.tenant, scopes=[Scope.RUNS_WRITE]))
    answer = api.ask(a_submit(buys, "?wait=1", key))
    assert (answer.status, "run" in read(answer)) == (202, False)
    assert len(shop.runs()) == 1


def test_dpp_80_a_submit_whose_run_goes_on_answers_the_receipt_byte_for_byte(api: Api, shop: Shop) -> None:
    key = a_request_key()
    waited = api.ask(a_submit(shop, "?wait=1", key))
    plain = api.ask(a_submit(shop, "", key))
    assert (waited.status, plain.status) == (202, 202)
    assert waited.body == plain.body


def test_dpp_80_a_submit_without_a_token_to_poll_does_not_wait_and_stands(api: Api, valkey: object) -> None:
    poor = a_shop(poll_rate_per_minute=1, opens=True)
    assert api.ask(a_get(RUNS, poor.issued)).status == 200
    answer = api.ask(a_submit(poor, "?wait=20", a_request_key()))
    assert (answer.status, answer.header("retry-after")) == (202, "2")
    assert len(poor.holds()) == 1


def test_dpp_80_a_submit_of_many_bytes_does_not_wait_and_stands(api: Api, shop: Shop) -> None:
    """Its body would be held meanwhile, and those of a few tenants would keep out everybody else's."""
    before = begun(api)
    answer = api.ask(a_submit(shop, "?wait=20", a_request_key(), client={"padding": "x" * 70_000}))
    assert (answer.status, answer.header("retry-after")) == (202, "2")
    assert begun(api) == before
    assert len(shop.runs()) == 1


def test_dpp_80_a_submit_with_a_wrong_wait_changes_nothing(api: Api, shop: Shop) -> None:
    answer = api.ask(a_submit(shop, "?wait=56", a_request_key()))
    assert (answer.status, read(answer)["errors"][0]["field"]) == (422, "query.wait")
    shop.nothing_happened()
