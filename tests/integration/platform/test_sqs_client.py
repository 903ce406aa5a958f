"""One client a process, never inherited; receipts that fail are said and not raised."""

import logging
import os
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from dpp_project.aws import clients, receipt_handles
from dpp_project.settings import ENV
from tests.gear.builders.queues import Queues, queues
from tests.gear.faults.proxy import Mode, Proxy


@pytest.fixture
def queue() -> Iterator[Queues]:
    with queues() as made:
        yield made


def test_threads_share_one_client() -> None:
    clients.sqs_client.forget()
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(clients.sqs_client())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(one) for one in found}) == 1


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_makes_its_own_even_if_the_lock_was_held() -> None:
    mine = clients.sqs_client()
    with clients.sqs_client._lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if clients.sqs_client() is not mine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert clients.sqs_client() is mine


def test_credentials_and_endpoint_are_the_settings() -> None:
    meta = clients.sqs_client().meta
    assert meta.endpoint_url == ENV.SQS_ENDPOINT_URL
    assert meta.config.connect_timeout == ENV.DPP_SQS_TIMEOUT_MS / 1_000  # type: ignore[attr-defined]


def received(queue: Queues, count: int) -> list[str]:
    for number in range(count):
        queue.send(str(number))
    found: list[str] = []
    while len(found) < count:
        answer = queue.sqs.receive_message(QueueUrl=queue.runs_url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        found += [message["ReceiptHandle"] for message in answer["Messages"]]
    return found


def test_receipts_are_deleted_and_released_ten_at_a_time(queue: Queues) -> None:
    held = received(queue, 23)
    receipt_handles.delete_receipts(queue.runs_url, held[:12])
    assert queue.counts(queue.runs_url) == (0, 11)
    receipt_handles.release_receipts(queue.runs_url, held[12:])
    assert queue.counts(queue.runs_url) == (11, 0)


def test_a_receipt_that_fails_is_logged_and_the_others_are_done(
    queue: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    held = received(queue, 2)
    with caplog.at_level(logging.WARNING, logger="dpp.sqs"):
        receipt_handles.delete_receipts(queue.runs_url, [held[0], "never-heard-of", held[1]])
        receipt_handles.delete_receipts(queue.runs_url + "-gone", ["x"])
        receipt_handles.release_receipts(queue.runs_url + "-gone", ["x"])
    assert queue.counts(queue.runs_url) == (0, 0)
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "1 messages were not deleted: ['ReceiptHandleIsInvalid']",
        "1 finished messages could not be deleted and will repeat",
        "1 messages could not be returned",
    ]


@pytest.mark.contract("DPP-31")
def test_dpp_31_an_sqs_in_a_black_hole_is_asked_once_for_all_that_a_heartbeat_keeps(
    queue: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question waits twice the timeout, and the next renewal of all leases waits behind them."""
    held, target = received(queue, 25), urlsplit(str(ENV.SQS_ENDPOINT_URL))
    with Proxy(str(target.hostname), target.port or 80) as proxy:
        monkeypatch.setattr(clients, "ENV", ENV.model_copy(update={"SQS_ENDPOINT_URL": proxy.url}))
        through = clients.new_sqs(read_timeout_seconds=0.3)
        monkeypatch.setattr(clients, "sqs_client", lambda: through)
        with proxy.outage(Mode.BLACK_HOLE):
            before = proxy.connections
            receipt_handles.keep_receipts(queue.runs_url, held, seconds=60)
            assert proxy.connections - before <= clients.ATTEMPTS
