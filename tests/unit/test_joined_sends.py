"""Sends of many threads share requests, and each thread is answered for its own message (DPP-88, DPP-09)."""

import threading
from collections.abc import Sequence
from typing import Any, Final

import pytest

from dpp_project.aws import joined_sends
from dpp_project.aws.joined_sends import IN_FLIGHT, JoinedSends
from dpp_project.aws.sqs_sender import BATCH, QueueMessage, SendFailed, Unreachable
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("DPP-88")

THREADS: Final = IN_FLIGHT + BATCH


class SlowSender:
    """Each request waits until it is let go. `refused` says which messages the queue does not take."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.let_go = threading.Event()
        self.refused: set[str] = set()
        self.fails: BaseException | None = None

    def send(self, message: QueueMessage) -> None:
        self._request([message])
        if message.body in self.refused:
            raise Unreachable(message.body)

    def send_batch(self, messages: Sequence[QueueMessage]) -> dict[int, SendFailed]:
        self._request(messages)
        if self.fails is not None:
            raise self.fails
        return {at: Unreachable(one.body) for at, one in enumerate(messages) if one.body in self.refused}

    def wait_for(self, *, requests: int) -> None:
        wait_until(lambda: len(self.requests) == requests, what="a request of its own")

    def _request(self, messages: Sequence[QueueMessage]) -> None:
        self.requests.append([one.body for one in messages])
        assert self.let_go.wait(10)


def at_once(sender: SlowSender) -> dict[str, BaseException | None]:
    """As many threads as fill the requests under way and one more; how each ended."""
    anything: Any = sender
    joined = JoinedSends(lambda: anything)
    ended: dict[str, BaseException | None] = {}

    def one(name: str) -> None:
        try:
            joined.send(QueueMessage(name))
        except (SendFailed, MemoryError) as error:
            ended[name] = error
        else:
            ended[name] = None

    threads = [threading.Thread(target=one, args=(f"message-{at}",)) for at in range(THREADS)]
    for at, thread in enumerate(threads):
        thread.start()
        if at < IN_FLIGHT:
            sender.wait_for(requests=at + 1)
    wait_until(lambda: len(joined._queue) == BATCH, what="the others to wait")
    sender.let_go.set()
    for thread in threads:
        thread.join(10)
    assert len(ended) == THREADS
    return ended


def test_dpp_88_what_comes_while_requests_are_under_way_goes_out_in_one() -> None:
    sender = SlowSender()
    assert set(at_once(sender).values()) == {None}
    assert [len(request) for request in sender.requests] == [*[1] * IN_FLIGHT, BATCH]
    assert {name for request in sender.requests for name in request} == {f"message-{at}" for at in range(THREADS)}


@pytest.mark.contract("DPP-09")
def test_dpp_09_one_that_the_queue_refuses_fails_for_its_own_thread_alone() -> None:
    sender = SlowSender()
    sender.refused = {"message-0", "message-5"}
    ended = at_once(sender)
    assert {name for name, error in ended.items() if isinstance(error, Unreachable)} == sender.refused
    assert [str(ended[name]) for name in sorted(sender.refused)] == sorted(sender.refused)


@pytest.mark.contract("DPP-09")
@pytest.mark.parametrize(("fails", "own"), [(Unreachable("away"), Unreachable), (MemoryError(), MemoryError)])
def test_dpp_09_a_request_that_fails_whole_fails_for_each_of_its_threads(
    fails: BaseException, own: type[BaseException]
) -> None:
    """What is no failure to send is raised by the thread that sent, and to the others it is one."""
    sender = SlowSender()
    sender.fails = fails
    failed = [error for error in at_once(sender).values() if error is not None]
    assert len(failed) == BATCH
    assert [type(error) for error in failed].count(own) == (BATCH if own is Unreachable else 1)
    assert {type(error) for error in failed} <= {own, SendFailed}


def test_dpp_88_messages_that_are_too_long_together_go_out_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_sends, "BYTES_MOST", 2 * len("message-0"))
    sender = SlowSender()
    assert set(at_once(sender).values()) == {None}
    assert max(len(request) for request in sender.requests) == 2
