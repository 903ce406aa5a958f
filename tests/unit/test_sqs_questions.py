"""When a worker asks the queue again: at once, or together with the slots that become free soon."""

import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from dpp_project.celery_sqs.lanes import Lanes
from dpp_project.celery_sqs.transport import BACKOFF_MAX_SECONDS, COMPANY_SECONDS, COMPANY_SHARE, Channel


@dataclass
class Timer:
    seconds: float
    call: Callable[[], None]
    canceled: bool = False

    def cancel(self) -> None:
        self.canceled = True


class Loop:
    """As much of the event loop as setting timers."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, call: Callable[..., None], *given: Any) -> Timer:
        self.timers.append(Timer(seconds, partial(call, *given)))
        return self.timers[-1]

    def waiting(self) -> list[float]:
        return [timer.seconds for timer in self.timers if not timer.canceled]


class Finished:
    """As much of kombu's books as an acknowledgement asks for."""

    def get(self, _tag: str) -> Any:
        return type("Message", (), {"delivery_info": {"sqs_queue": "http://queue"}})()

    def ack(self, _tag: str) -> None:
        pass


def a_channel(monkeypatch: pytest.MonkeyPatch, *, took_seconds: float, backlog: bool, given: int) -> tuple[Any, Loop]:
    """Messages "0", "1" and on were given to Celery so long ago."""
    channel, loop = Channel.__new__(Channel), Loop()
    channel.hub, channel._qos, channel._next_question, channel._flush_timer = loop, Finished(), None, object()
    channel._backlog, channel._finished = ({"runs"} if backlog else set()), {"http://queue": []}
    channel._given = {str(number): 100.0 for number in range(given)}
    channel._active_queues, channel._lanes = [], Lanes(general=4, express=0)
    channel._held, channel._took = defaultdict(deque), None
    monkeypatch.setattr(time, "monotonic", lambda: 100.0 + took_seconds)
    return channel, loop


@pytest.mark.parametrize(
    ("took_seconds", "pause_seconds"), [(0.02, 0.02 * COMPANY_SHARE), (90.0, COMPANY_SECONDS)], ids=["short", "long"]
)
def test_sqs_under_a_backlog_a_free_slot_waits_a_moment_for_another(
    took_seconds: float, pause_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel, loop = a_channel(monkeypatch, took_seconds=took_seconds, backlog=True, given=3)
    channel.basic_ack("0")
    assert loop.waiting() == pytest.approx([pause_seconds])
    channel.basic_ack("1")
    assert loop.waiting() == pytest.approx([pause_seconds])  # it joins the first
    channel.basic_ack("2")
    assert loop.waiting() == [0.0]  # nobody is left to wait for
    loop.timers[-1].call()
    assert channel._next_question is None


def test_sqs_without_a_backlog_a_free_slot_asks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    channel, loop = a_channel(monkeypatch, took_seconds=1.0, backlog=False, given=3)
    channel.basic_ack("0")
    assert loop.waiting() == [0.0]


def test_sqs_a_queue_that_is_away_for_hours_is_asked_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    channel, loop = a_channel(monkeypatch, took_seconds=0.0, backlog=False, given=0)
    channel._failures = defaultdict(int)
    for _ in range(2_000):
        channel._pause("runs", ConnectionError())
    pauses = loop.waiting()
    assert pauses[:4] == [0.25, 0.5, 1.0, 2.0]
    assert set(pauses[4:]) == {BACKOFF_MAX_SECONDS}
