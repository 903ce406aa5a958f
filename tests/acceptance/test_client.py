"""The Python client against a real API: refusals, and everything that breaks on the way (DPP-83)."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

import dpp
from dpp.streams import Followed
from dpp_project.stores import redis
from tests.gear.builders.shop import PRICE, PRICE_MICROS, Shop, a_shop
from tests.gear.builders.waiting import begun, failed, queued, started, waiting
from tests.gear.faults.cut_answers import AsyncCutTransport, Cut, CutTransport, HeldBackTransport
from tests.gear.faults.proxy import Mode, Proxy
from tests.gear.servers.live_api import Api, an_api
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.contract("DPP-83"), pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def api(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with an_api(tmp_path_factory.mktemp("client"), threads=2, limits={}) as found:
        yield found


@pytest.fixture
def proxy(api: Api) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", api.port) as found:
        yield found


@dataclass
class Watched:
    """A client whose pauses are told, and not waited for."""

    client: dpp.Client
    pauses: list[float] = field(default_factory=list)
    meanwhile: Callable[[], object] = lambda: None


@pytest.fixture
def watched(api: Api, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Watched]]:
    with ExitStack() as stack:

        def closed(client: httpx2.Client | dpp.Client) -> None:
            stack.callback(client.close)

        yield _maker(api, shop, monkeypatch, closed)


def _maker(
    api: Api, shop: Shop, monkeypatch: pytest.MonkeyPatch, closed: Callable[[httpx2.Client | dpp.Client], None]
) -> Callable[..., Watched]:
    def make(url: str = "", *, of: Shop = shop, http: httpx2.Client | None = None, retries: int = 5) -> Watched:
        url = url or f"http://127.0.0.1:{api.port}"
        found = Watched(dpp.Client(url, of.issued.plaintext, retries=retries, http_client=http))
        closed(found.client)
        if http is not None:
            closed(http)

        def pause(seconds: float) -> None:
            found.pauses.append(seconds)
            found.meanwhile()

        monkeypatch.setattr(found.client, "_pause", pause)
        return found

    return make


def probe(client: dpp.Client, **changes: Any) -> dpp.Receipt:
    return client.submit("probe", {"sleep_ms": 1}, **({"max_cost_usd": PRICE} | changes))


def test_dpp_83_a_connection_that_breaks_after_the_request_was_sent_pays_once(
    shop: Shop, watched: Callable[..., Watched]
) -> None:
    """The first request is kept on its way, and arrives when the second has been answered."""
    late = HeldBackTransport()
    asked = watched(http=httpx2.Client(transport=late))
    receipt = probe(asked.client)
    assert len(asked.pauses) == 1
    assert late.let_go().headers["Idempotent-Replayed"] == "true"
    assert [str(run.run_id) for run in shop.runs()] == [receipt.run_id]
    assert shop.holds() == {receipt.run_id: PRICE_MICROS}
    again = probe(asked.client, idempotency_key=receipt.idempotency_key)
    assert (again.run_id, again.replayed, receipt.replayed) == (receipt.run_id, True, False)


def test_dpp_83_an_answer_that_is_lost_pays_once(proxy: Proxy, shop: Shop, watched: Callable[..., Watched]) -> None:
    asked = watched(proxy.url)
    asked.meanwhile = lambda: proxy.cut_after(None)
    proxy.cut_after(0)
    receipt = probe(asked.client)
    assert (len(asked.pauses), receipt.replayed) == (1, True)
    assert shop.holds() == {receipt.run_id: PRICE_MICROS}


def test_dpp_83_a_platform_that_is_away_is_asked_again_and_the_key_is_told(
    proxy: Proxy, shop: Shop, watched: Callable[..., Watched]
) -> None:
    asked = watched(proxy.url, retries=2)
    with proxy.outage(Mode.REFUSE), pytest.raises(dpp.ConnectionLostError) as lost:
        probe(asked.client)
    assert len(asked.pauses) == 2
    assert all(0 < pause <= 0.5 for pause in asked.pauses)
    shop.nothing_happened()
    assert lost.value.idempotency_key is not None
    assert probe(asked.client, idempotency_key=lost.value.idempotency_key).replayed is False


def test_dpp_83_too_many_requests_are_repeated_when_there_is_room(watched: Callable[..., Watched], shop: Shop) -> None:
    slow = a_shop(submit_rate_per_minute=1)
    asked = watched(of=slow, retries=1)
    asked.meanwhile = lambda: redis.redis_client().delete(f"rate:{slow.tenant.tenant_id}:submit")
    probe(asked.client)
    probe(asked.client)
    assert len(asked.pauses) == 1
    assert 30 <= asked.pauses[0] < 31, "as Retry-After said, and a little apart from others"
    assert len(slow.runs()) == 2
    asked.meanwhile = lambda: None
    with pytest.raises(dpp.RateLimitedError) as limited:
        probe(asked.client)
    assert (limited.value.retry_after, limited.value.reason_code) == (30, "RATE_LIMITED")


def test_dpp_83_a_stream_cut_at_any_byte_loses_and_repeats_nothing(shop: Shop, watched: Callable[..., Watched]) -> None:
    run = failed(queued(shop))
    cut = Cut()
    asked = watched(http=httpx2.Client(transport=CutTransport(cut)))
    whole = list(asked.client.stream(str(run.run_id)))
    assert [(event.version, event.status) for event in whole if isinstance(event, dpp.StepEvent)] == [
        (1, "QUEUED"),
        (2, "PROCESSING"),
        (3, "PROCESSING"),
        (4, "FAILED"),
    ]
    cuts = range(0, 560, 8)
    for after in cuts:
        cut.after = after
        assert list(asked.client.stream(str(run.run_id))) == whole
    assert cut.answers > 1.8 * len(cuts), "most were cut before their end"


def test_dpp_83_an_async_stream_that_breaks_while_the_run_works_goes_on(api: Api, shop: Shop) -> None:
    run = started(queued(shop))
    cut = Cut()
    cut.after = 100

    async def script() -> list[Followed]:
        http = httpx2.AsyncClient(transport=AsyncCutTransport(cut))
        async with (
            http,
            dpp.AsyncClient(f"http://127.0.0.1:{api.port}", shop.issued.plaintext, http_client=http) as client,
        ):
            found = []
            async for event in client.stream(str(run.run_id)):
                found.append(event)
                if len(found) == 2:
                    await asyncio.to_thread(failed, run)
            return found

    assert [event.version for event in asyncio.run(script()) if isinstance(event, dpp.StepEvent)] == [1, 2, 3, 4]
    assert cut.answers == 2


def test_dpp_80_ten_runs_at_once_waited_for_by_client_and_by_curl_meet_no_429(
    api: Api, valkey: object, aws: str
) -> None:
    """Each is one request of the bucket `poll` to its end, however it is waited for."""
    shop = a_shop(submit_rate_per_minute=60, poll_rate_per_minute=60, opens=True)
    with (
        ExitStack() as stack,
        dpp.Client(f"http://127.0.0.1:{api.port}", shop.issued.plaintext) as client,
        ThreadPoolExecutor(10) as threads,
    ):
        before = begun(api)
        waited = [
            threads.submit(client.submit_and_wait, "probe", {"sleep_ms": 1}, max_cost_usd=PRICE) for _ in range(10)
        ]
        wait_until(lambda: begun(api) >= before + 10, seconds=30, what="ten that wait")
        runs = shop.runs()
        curls = [waiting(api, stack, shop, run, query="?wait=55")[0] for run in runs]
        for run in runs:
            failed(run)
        assert {one.result().status for one in waited} == {"FAILED"}
        answers = [one.receive() for one in curls]
    assert {answer.status for answer in answers} == {200}
    left = min(int(answer.header("x-ratelimit-remaining") or 0) for answer in answers)
    assert left >= 60 - 20, "ten by the client, ten by curl"
    asked = [line for line in api.log_lines("request") if line.get("tenant_id") == shop.tenant.tenant_id]
    assert (len(asked), {line["status"] for line in asked}) == (20, {200})


def test_dpp_83_a_wait_ends_in_time_and_the_run_goes_on(watched: Callable[..., Watched], shop: Shop) -> None:
    run = queued(shop)
    asked = watched()
    for waits in (
        lambda: asked.client.wait(str(run.run_id), timeout=0.2),
        lambda: _follow(asked.client, str(run.run_id)),
    ):
        with pytest.raises(dpp.WaitTimeoutError) as over:
            waits()
        assert over.value.run_id == str(run.run_id)
    failed(run)
    ended = asked.client.wait(str(run.run_id))
    with pytest.raises(dpp.RunFailedError) as why:
        ended.check()
    assert why.value.reason_code == "PACK_FAILED"
    with pytest.raises(dpp.RunFailedError):
        asked.client.download(str(run.run_id))


def _follow(client: dpp.Client, run_id: str) -> list[Followed]:
    return list(client.stream(run_id, timeout=0.2))


def test_dpp_83_wrong_inputs_are_named_and_change_nothing(watched: Callable[..., Watched], shop: Shop) -> None:
    client = watched().client
    for wrong in (0.25, "0.00001", "-1", "NaN", "much", True):
        with pytest.raises(dpp.ConfigurationError, match="max_cost_usd"):
            probe(client, max_cost_usd=wrong)
    with pytest.raises(dpp.ConfigurationError, match="idempotency_key"):
        probe(client, idempotency_key="short")
    with pytest.raises(dpp.ConfigurationError, match="inputs"):
        client.submit("probe", {"sleep_ms": float("nan")}, max_cost_usd=PRICE)
    with pytest.raises(dpp.ConfigurationError, match="run_id"):
        client.get("../keys")
    with pytest.raises(dpp.InvalidRequestError) as invalid:
        client.submit("probe", {"sleep": 1}, max_cost_usd=PRICE)
    assert (invalid.value.field, invalid.value.reason_code) == ("inputs.sleep", "VALIDATION_FAILED")
    assert invalid.value.trace_id
    with pytest.raises(dpp.PaymentRequiredError) as drained:
        probe(client, max_cost_usd=1_000_000)
    assert drained.value.reason_code == "BUDGET_DRAINED"
    with pytest.raises(dpp.NotFoundError):
        client.get("01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e")
    shop.nothing_happened()


def test_dpp_83_a_key_stands_in_no_text(api: Api, shop: Shop) -> None:
    key = shop.issued.plaintext[:-1] + ("a" if shop.issued.plaintext[-1] != "a" else "b")
    with dpp.Client(f"http://127.0.0.1:{api.port}", key) as client, pytest.raises(dpp.AuthenticationError) as refused:
        client.budget()
    assert key not in f"{client!r} {refused.value!r} {refused.value} {refused.value.document} {vars(client)}"


def test_dpp_83_a_run_is_canceled_even_if_the_answer_is_lost(
    proxy: Proxy, shop: Shop, watched: Callable[..., Watched]
) -> None:
    run = queued(shop)
    asked = watched(proxy.url)
    asked.meanwhile = lambda: proxy.cut_after(None)
    proxy.cut_after(0)
    canceled = asked.client.cancel(str(run.run_id))
    assert (canceled.money_state, len(asked.pauses)) == ("REFUNDED", 1)


def test_dpp_83_a_file_is_uploaded_once_even_if_the_answer_is_lost(shop: Shop, watched: Callable[..., Watched]) -> None:
    cut = Cut()
    asked = watched(http=httpx2.Client(transport=CutTransport(cut)))
    cut.skip, cut.after = 1, 0  # the bucket's answer, not the API's
    key = asked.client.upload(b'{"a": 1}', filename="a b.json")
    assert (cut.answers, len(asked.pauses)) == (3, 1)
    assert key.startswith("uploads/")
    assert key.endswith("a_b.json")
    with pytest.raises(dpp.ConfigurationError, match="content_type"):
        asked.client.upload(b"x", filename="a.exe")


def test_dpp_83_pages_follow_one_another(shop: Shop, watched: Callable[..., Watched]) -> None:
    client = watched().client
    bought = [probe(client).run_id for _ in range(3)]
    assert [one.run_id for one in client.list(page_size=2)] == bought[::-1]
