"""`/events`: each step of a run once, in order, whatever the connection does (DPP-81)."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pytest

from dpp_project.stores import redis
from runs import progress, transitions
from runs.models import RunHistory
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import RUNS, Shop, a_shop
from tests.gear.builders.waiting import (
    Event,
    a_get,
    an_event,
    begun,
    documents,
    failed,
    following,
    left,
    queued,
    read,
    started,
    waiting,
)
from tests.gear.servers.live_api import Api, an_api
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.contract("DPP-81"), pytest.mark.django_db(transaction=True)]

ONE_ADDRESS: dict[str, dict[str, float]] = {"connections": {"per_address": 5_000}, "strangers": {"burst": 5_000}}
STEPS = [(1, "QUEUED"), (2, "PROCESSING"), (3, "PROCESSING"), (4, "FAILED")]


@pytest.fixture(scope="module")
def api(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One thread: what held it would stop everything."""
    with an_api(tmp_path_factory.mktemp("events"), threads=1, limits=ONE_ADDRESS) as api:
        yield api


def told(events: list[Event]) -> list[tuple[int | None, str]]:
    return [(event.event_id, event.name) for event in events]


def test_dpp_81_each_step_comes_once_as_it_is_made_and_the_end_closes(api: Api, shop: Shop) -> None:
    run = queued(shop)
    with ExitStack() as stack:
        many = [following(api, stack, shop, run) for _ in range(4)]
        one = many[0]
        assert (one.head.status, one.head.header("content-type")) == (200, "text/event-stream; charset=utf-8")
        assert (one.head.header("x-accel-buffering"), one.head.header("cache-control")) == ("no", "no-store")
        assert one.head.header("x-dpp-cost-reserved-usd-micros") == "250000"
        assert one.block() == "retry: 2000"
        first = one.event()
        assert first is not None
        assert told([first]) == [STEPS[0]]
        assert set(first.data) == {"status", "money_state", "at"}
        run = started(run)
        second = one.event()
        assert second is not None
        assert told([second]) == [STEPS[1]]
        assert api.ask(a_get(f"{RUNS}/{run.run_id}", shop.issued)).status == 200, "the one thread is free"
        failed(run)
        rest = one.events()
        assert told(rest) == STEPS[2:]
        assert "used" not in rest[0].data, "nothing is charged before the end"
        assert rest[1].data | {"at": None} == {
            "status": "FAILED",
            "money_state": "SETTLED",
            "at": None,
            "used": "0.0050",
            "used_usd_micros": 5_000,
            "reason_code": "PACK_FAILED",
        }
        assert [told(other.events()) for other in many[1:]] == [STEPS] * 3
    stored = RunHistory.objects.filter(run_id=run.run_id, version__gte=1).order_by("version")
    assert [datetime.fromisoformat(event.data["at"]) for event in [first, second, *rest]] == [row.at for row in stored]


def test_dpp_81_an_ended_run_answers_at_once_whatever_was_disputed_since(api: Api, shop: Shop) -> None:
    run = failed(queued(shop))
    gear.won(transitions.dispute(run_id=run.run_id, version=run.version, actor="operator:kim"))
    before = begun(api)
    answer = api.ask(a_get(f"{RUNS}/{run.run_id}/events", shop.issued))
    events = [an_event(block) for block in answer.body.decode().split("\n\n") if "event: " in block]
    assert told(events) == STEPS
    assert begun(api) == before, "nothing is waited for"


@pytest.mark.parametrize("last", range(6))
def test_dpp_81_a_client_that_was_cut_off_gets_what_came_after_its_last_event(api: Api, shop: Shop, last: int) -> None:
    """By each id there is, 5 being none of this run, and 4 its last: a browser stops at a 204."""
    run = failed(queued(shop))
    answer = api.ask(a_get(f"{RUNS}/{run.run_id}/events", shop.issued, f"Last-Event-ID: {last}"))
    if last == 4:
        assert (answer.status, answer.body) == (204, b"")
        return
    events = [an_event(block) for block in answer.body.decode().split("\n\n") if "event: " in block]
    assert told(events) == [step for step in STEPS if last == 5 or step[0] > last]


@pytest.mark.parametrize("cut_after", [1, 2, 3])
def test_dpp_81_reconnecting_in_the_middle_loses_and_repeats_nothing(api: Api, shop: Shop, cut_after: int) -> None:
    run = queued(shop)
    with ExitStack() as stack:
        first = following(api, stack, shop, run)
        heard = [first.event()]
        if cut_after > 1:
            run = started(run)
            heard.append(first.event())
        first.client.socket.close()
        seen = [event for event in heard if event is not None]
        if cut_after == 3:
            failed(run)  # between the two connections
        again = following(api, stack, shop, run, f"Last-Event-ID: {seen[-1].event_id}")
        if cut_after < 3:
            failed(run)
        assert told(seen + again.events()) == STEPS


def test_dpp_81_what_is_no_id_or_not_of_the_tenant_is_refused(api: Api, shop: Shop) -> None:
    run, other = queued(shop), a_shop()
    path = f"{RUNS}/{run.run_id}/events"
    wrong = api.ask(a_get(path, shop.issued, "Last-Event-ID: soon"))
    assert (wrong.status, read(wrong)["errors"][0]["field"]) == (422, "header.Last-Event-ID")
    unknown = api.ask(a_get(f"{path}?wait=2", shop.issued))
    assert (unknown.status, read(unknown)["errors"][0]["field"]) == (422, "query.wait")
    assert api.ask(a_get(path, shop.issued, "Accept: application/json")).status == 406
    foreign = api.ask(a_get(path, other.issued))
    assert (foreign.status, read(foreign)["reason_code"]) == (404, "NOT_FOUND")
    head = api.ask(
        a_get(path, shop.issued).replace(b"GET", b"HEAD", 1).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    )
    assert (head.status, head.body) == (200, b"")


def test_dpp_81_waits_and_events_share_their_places(api: Api, shop: Shop) -> None:
    run = queued(shop)
    with ExitStack() as stack:
        held = waiting(api, stack, shop, run, count=49)
        last = following(api, stack, shop, run)
        assert last.head.header("retry-after") is None
        assert last.event() is not None
        wait_until(lambda: api.ask(a_get(f"{RUNS}/{run.run_id}?wait=1", shop.issued)).header("retry-after") == "2")
        refused = following(api, stack, shop, run)
        assert refused.head.header("retry-after") == "2"
        assert told(refused.events()) == STEPS[:1], "what there is comes, and the connection ends"
        before = left(api)
        last.client.socket.close()
        wait_until(lambda: left(api) == before + 1, what="the place of the client that left")
        failed(run)
        assert {one["status"] for one in documents(held)} == {"FAILED"}


def test_dpp_81_a_server_that_stops_ends_the_streams_at_once(tmp_path: Path, shop: Shop) -> None:
    run = queued(shop)
    with an_api(tmp_path, threads=2, limits=ONE_ADDRESS) as api, ExitStack() as stack:
        many = [following(api, stack, shop, run) for _ in range(20)]
        assert [told([event]) for one in many if (event := one.event())] == [STEPS[:1]] * 20
        stopped = time.monotonic()
        api.stop()
        assert [one.events() for one in many] == [[]] * 20
        assert time.monotonic() - stopped < 5.0
        for one in many:
            one.client.socket.close()
        assert api.process.wait(10) == 0


def test_dpp_81_a_reader_that_reads_nothing_is_cut_off_and_the_others_go_on(
    tmp_path: Path, shop: Shop, valkey: object
) -> None:
    """What its pack says fills the socket; then the server drops the reader, not memory."""
    limits = ONE_ADDRESS | {"streams": {"seconds": 0.5}}
    run = started(queued(shop))
    with an_api(tmp_path, threads=1, limits=limits) as api, ExitStack() as stack:
        reader, slow = following(api, stack, shop, run), following(api, stack, shop, run)
        slow.client.socket.setsockopt(1, 8, 4_096)  # SO_RCVBUF
        frame = {"line": "x" * 2_000, "at": "2026-03-01T12:00:00Z"}

        def say_more() -> bool:
            with redis.redis_client().pipeline(transaction=False) as pipeline:
                for _ in range(progress.KEPT):
                    progress.queue_write(pipeline, str(run.run_id), frame)
                pipeline.execute()
            assert reader.block()
            return bool(api.log_lines("client took a streamed answer too slowly"))

        reader.client.socket.settimeout(30)
        wait_until(say_more, seconds=60, pause_seconds=0.1, what="the slow reader to be cut off")
        failed(run)
        assert told([event for event in reader.events() if event.event_id])[-1] == STEPS[-1]


@pytest.mark.contract("DPP-90")
def test_dpp_90_what_the_pack_says_comes_between_the_steps_without_an_id(api: Api, shop: Shop, valkey: object) -> None:
    run = started(queued(shop))
    say(str(run.run_id), percent=10, note="page 1 of 10")
    with ExitStack() as stack:
        one = following(api, stack, shop, run)
        events = [one.event(), one.event(), one.event()]
        assert [event and event.name for event in events] == ["QUEUED", "PROCESSING", "progress"]
        assert events[2] == Event(
            "progress", None, {"percent": 10, "note": "page 1 of 10", "at": "2026-03-01T12:00:00Z"}
        )
        say(str(run.run_id), line="reading\n", cost_usd_micros=300)
        event = one.event()
        assert event is not None
        assert event.data == {"line": "reading\n", "cost_usd_micros": 300, "at": "2026-03-01T12:00:00Z"}
        failed(run)
        assert told(one.events()) == STEPS[2:]


def say(run_id: str, **frame: object) -> None:
    with redis.redis_client().pipeline(transaction=False) as pipeline:
        progress.queue_write(pipeline, run_id, frame | {"at": "2026-03-01T12:00:00Z"})
        pipeline.execute()
