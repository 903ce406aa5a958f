"""One look for all who wait, which loses nothing in any order of reading, registering, committing and looking."""

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping

import pytest

from dpp_project.waiting.places import Places
from dpp_project.waiting.watcher import News, Waiter, Watcher
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("DPP-80")


class AwayError(Exception):
    pass


class Story:
    """What was committed, and a watcher of it whose looks the test takes itself where `turned` is given."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.looks: list[dict[str, int]] = []
        self.rests = 0
        self.away = False
        self.during_look: Callable[[], None] = lambda: None

    def look(self, seen: Mapping[str, int]) -> Iterator[News]:
        self.looks.append(dict(seen))
        if self.away:
            raise AwayError
        found = [
            News(key, version, f"{key}.{version}")
            for key, since in seen.items()
            for version in range(since + 1, self.versions.get(key, 0) + 1)
        ]
        self.during_look()
        yield from found

    def rest(self) -> None:
        self.rests += 1

    def watcher(self, name: str = "test", *, every_seconds: float = 0.005) -> Watcher[int]:
        return Watcher(name, self.look, every_seconds=every_seconds, away=(AwayError,), rest=self.rest)

    def turned_by_hand(self, monkeypatch: pytest.MonkeyPatch) -> Watcher[int]:
        watcher = self.watcher()
        monkeypatch.setattr(watcher, "_watch", lambda: None)
        return watcher


def on_a_loop(act: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await act()

    asyncio.run(bounded())


ORDERS = [
    order
    for order in itertools.permutations(["read", "register", "commit", "look"])
    if order.index("read") < order.index("register")
]


@pytest.mark.parametrize("order", ORDERS, ids=["-".join(order) for order in ORDERS])
def test_a_step_is_heard_in_every_order_of_reading_registering_committing_and_looking(
    monkeypatch: pytest.MonkeyPatch, order: tuple[str, ...]
) -> None:
    """With one look more, as the thread takes it: a commit that was read is no news, and every other one is."""
    story = Story()
    story.versions["run"] = 1
    watcher = story.turned_by_hand(monkeypatch)

    async def act() -> None:
        waiter, read = Waiter(), 0
        stays = None
        for step in [*order, "look"]:
            if step == "read":
                read = story.versions["run"]
            elif step == "register":
                stays = watcher.watching(waiter, "run", seen=read)
                stays.__enter__()
            elif step == "commit":
                story.versions["run"] = 2
            else:
                watcher.look_once()
        heard = [news.mark for news in await waiter.news(seconds=0.05)]
        assert heard == ([2] if read == 1 else [])
        assert stays is not None
        stays.__exit__(None, None, None)

    on_a_loop(act)


def test_a_waiter_that_knows_less_and_comes_during_a_look_misses_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    story.versions["run"] = 4
    watcher = story.turned_by_hand(monkeypatch)

    async def act() -> None:
        first, late = Waiter(), Waiter()
        with watcher.watching(first, "run", seen=3):
            stays = watcher.watching(late, "run", seen=1)
            story.during_look = stays.__enter__
            watcher.look_once()
            story.during_look = lambda: None
            assert [news.mark for news in await first.news(seconds=1)] == [4]
            assert await late.news(seconds=0.01) == [], "what it would hear now has a gap before it"
            watcher.look_once()
            assert [news.mark for news in await late.news(seconds=1)] == [2, 3, 4]
            assert await first.news(seconds=0.01) == [], "and nothing comes twice"
            stays.__exit__(None, None, None)

    on_a_loop(act)


def test_one_look_asks_for_all_and_each_hears_its_own() -> None:
    story = Story()
    watcher = story.watcher("for-all")

    async def act() -> None:
        waiters = {f"run-{number}": Waiter() for number in range(100)}
        with_all = [watcher.watching(waiter, key, seen=0) for key, waiter in waiters.items()]
        for one in with_all:
            one.__enter__()
        await asyncio.to_thread(wait_until, lambda: any(len(look) == 100 for look in story.looks))
        assert len([one for one in threading.enumerate() if one.name == "watch-for-all"]) == 1
        story.versions["run-7"] = 1
        assert [news.what for news in await waiters["run-7"].news(seconds=5)] == ["run-7.1"]
        assert all([await waiter.news(seconds=0) == [] for waiter in waiters.values()])
        for one in with_all:
            one.__exit__(None, None, None)

    on_a_loop(act)


def test_where_nobody_waits_nothing_is_asked_and_the_connection_is_given_back() -> None:
    story = Story()
    watcher = story.watcher()

    async def act() -> None:
        with watcher.watching(Waiter(), "run", seen=0):
            await asyncio.to_thread(wait_until, lambda: story.looks)
        await asyncio.to_thread(wait_until, lambda: story.rests)
        asked = len(story.looks)
        await asyncio.sleep(0.05)  # ten looks' time: that none comes is all there is to see
        assert len(story.looks) == asked
        story.versions["run"] = 1
        waiter = Waiter()
        with watcher.watching(waiter, "run", seen=0):
            assert [news.mark for news in await waiter.news(seconds=5)] == [1]

    on_a_loop(act)


def test_a_connection_that_cannot_be_given_back_ends_no_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    rest = story.rest

    def refused() -> None:
        rest()
        raise AwayError

    monkeypatch.setattr(story, "rest", refused)
    watcher = story.watcher()

    async def act() -> None:
        with watcher.watching(Waiter(), "run", seen=0):
            await asyncio.to_thread(wait_until, lambda: story.looks)
        await asyncio.to_thread(wait_until, lambda: story.rests)
        story.versions["run"] = 1
        waiter = Waiter()
        with watcher.watching(waiter, "run", seen=0):
            assert [news.mark for news in await waiter.news(seconds=5)] == [1]

    on_a_loop(act)


def test_a_service_that_is_away_ends_no_wait_and_its_return_brings_what_happened_meanwhile() -> None:
    story = Story()
    story.away = True
    watcher = story.watcher()

    async def act() -> None:
        waiter = Waiter()
        with watcher.watching(waiter, "run", seen=0):
            await asyncio.to_thread(wait_until, lambda: len(story.looks) >= 2)
            assert await waiter.news(seconds=0.01) == []
            story.versions["run"] = 3
            story.away = False
            assert [news.mark for news in await waiter.news(seconds=10)] == [1, 2, 3]
        assert story.rests >= 2, "its connection is not used again"

    on_a_loop(act)


def test_all_are_told_when_the_process_stops_and_who_comes_later_is_told_at_once() -> None:
    watcher = Story().watcher()

    async def act() -> None:
        first, late = Waiter(), Waiter()
        with watcher.watching(first, "run", seen=0):
            watcher.stop()
            assert await first.news(seconds=20) == []
            assert first.stopping
            with watcher.watching(late, "other", seen=0):
                assert await late.news(seconds=20) == []
                assert late.stopping

    on_a_loop(act)


def test_places_are_bounded_for_each_tenant_and_for_all_and_are_given_back() -> None:
    places = Places(per_tenant=2, in_process=3)
    with places.place("a") as one, places.place("a") as two, places.place("a") as three, places.place("b") as four:
        assert (one, two, three, four) == (True, True, False, True)
        assert not places.has_room("c")
        with places.place("c") as five:
            assert not five
    assert places.taken == 0
    with pytest.raises(ZeroDivisionError), places.place("a"):
        _ = 1 / 0
    assert places.taken == 0
    assert places.has_room("a")
