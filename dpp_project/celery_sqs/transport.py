"""Celery's SQS transport, with receiving and acknowledging done by threads of our own.

kombu 5.7.0 receives through pycurl on the worker's event loop and acknowledges with a blocking call on that same loop.
Reproduced with it: a refused connection, a 403 or a 5xx ends the worker; a black-holed connection leaves it alive and
deaf, since pycurl is given no timeout; a body that is not base64 ends it; a `task` header without an `id` stops the
polling for good; an acknowledgement costs a round trip of everyone's time; with `polling_interval` 0 a full worker
spins. Here boto3 receives in a thread, with timeouts, and the loop only learns the outcome:

    loop    room for n?  -> asks a receiver thread
    thread  long poll    -> letterbox, wakes the loop
    loop    letterbox    -> Celery; or, on failure, asks again after a growing pause
    loop    done         -> the slot is free at once and asks again, under a backlog together with those that follow
                            soon; the delete waits for company
    thread  deletes      -> DeleteMessageBatch, at ten or after a second

Of two queues the express one is asked first, and lanes.py says what may have which slot. A message without a place is
held here: an express one, since its tenant's own run will make room before long, and of the others what was taken ahead
of short tasks. After half of its first visibility, or a second, it is sent again as a new message, and deleted: to make
it visible would count a receive, and the third ends in the DLQ. A death between the two leaves two messages for one
run, which start it once.

Where a received message can be, and what happens to it there:

- in the letterbox, or held: given to Celery, or made visible again once its consumer is cancelled or the channel
  closes;
- with Celery: acknowledged, rejected, or made visible again at close;
- acknowledged, its delete not yet sent: a crash here, or a delete that fails, repeats the message after its visibility
  timeout. A run starts by compare-and-set, so a repeated message finds nothing to do;
- rejected: left alone until its visibility ends, so that SQS counts the receives and moves it to the
  dead-letter queue. It is never deleted: the queue has a redrive policy (`manage.py provision` sees to it);
- in an answer that never arrived (process killed, connection cut during a poll): invisible for a while.

The last one is a cause, the only one found, of "received, and not executed until visibility ended". A poll that is open
when its connection goes may stay open at the service (seen with ministack, modelled by tests/gear/servers/fakesqs.py,
not tried on AWS), takes the next messages sent, and answers into a closed connection. Stock kombu leaves its
poll behind at every stop. Here a stop waits for it (at most DPP_SQS_WAIT_SECONDS, while the packs drain anyway) and
makes visible what it brought. For a kill and a cut the loss is bounded instead: a poll is short, one that waits asks
for a single message, and it takes messages for DPP_SQS_FIRST_VISIBILITY_SECONDS only, not for the 120 s of the queue.
That is longer than the heartbeat interval, and the heartbeat of a run extends it; a run that ends sooner needs no
extension. bench/worker_pool.py shows the loss with `--killed`: ten messages after a killed stock worker, one of ours.

The threads here wake the loop by `call_soon`, which works only where the loop polls a descriptor: that is the bell of
the worker's pool (slots.py). The worker never forks; its box's nursery is started by exec.
"""

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kombu.transport import SQS as KOMBU_SQS
from kombu.transport import virtual

from dpp_project.aws import clients, receipt_handles, sqs_sender
from dpp_project.celery_sqs import celery_message, lanes
from dpp_project.process_env import ENV

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

log = logging.getLogger("dpp.sqs")

POLLS = 4
FLUSH_SECONDS = 1.0
COMPANY_SECONDS = 0.01
COMPANY_SHARE = 0.25
"""A free slot waits for another for a quarter of the time that its own message took, ten milliseconds at most. With
four slots and short runs each of them would else ask alone, and a run would cost a third of a receive more. SQS charges
by the request: docs/dependencies.md has the figures."""
BACKOFF_FIRST_SECONDS = 0.25
BACKOFF_MAX_SECONDS = 3.0
BACKOFF_DOUBLINGS_MAX = 16
"""After a thousand failures, an hour's worth, the number were more than a float holds."""

HOLD_SHARE = 0.5
"""Of a message's first visibility: so long an express message waits inside for a place."""

AGAIN_SECONDS = 2
"""What is one too many to be held is sent again, to be seen so much later: behind it may be another tenant's first."""

AHEAD_SECONDS = 0.5
AHEAD_MOST_SECONDS = 1.0
TOOK_SHARE = 0.2
"""Under a backlog of short tasks a worker asks for more than it has slots for: what they will have done in half a
second, so that ten messages cost one request whatever the number of slots. Where tasks take longer than a second,
nothing is taken ahead, and what was is sent again. How long they take is a moving average: each has a fifth of it."""

SqsMessage = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Held:
    """A message that waits for a place: an express one, or one of a few that were taken ahead."""

    message: SqsMessage
    url: str
    until: float


SQS: Any = KOMBU_SQS  # its stubs know a part of it


_polls_answered: Final = [0]


def polls_answered() -> int:
    """How many polls of this process the loop has heard of, whatever came of them: so long it turns."""
    return _polls_answered[0]


class Channel(SQS.Channel):  # type: ignore[misc]
    """See the module. Methods whose names end in `_in_thread` run outside the event loop, all others on it."""

    do_restore = False  # close() returns messages itself, in batches and with visibility 0

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._letterbox: deque[tuple[str, int, list[SqsMessage] | Exception]] = deque()
        self._cancelling = threading.Lock()  # a poll's answer goes to the letterbox or back, never between
        self._asked: dict[str, list[int]] = defaultdict(list)  # messages asked for by each open poll
        self._backlog: set[str] = set()  # queues whose last answer was as long as it could be
        self._failures: dict[str, int] = defaultdict(int)
        self._finished: dict[str, list[str]] = defaultdict(list)
        self._flush_timer: Any = None
        self._given: dict[str, float] = {}  # when each message that Celery has was given to it
        self._next_question: Any = None
        express = lanes.express_slots(ENV.DPP_WORKER_CONCURRENCY) if ENV.DPP_EXPRESS_QUEUE_URL else 0
        self._lanes = lanes.Lanes(general=ENV.DPP_WORKER_CONCURRENCY, express=express)
        self._held: dict[str, deque[_Held]] = defaultdict(deque)
        self._took: float | None = None  # seconds, on average, of the tasks that ended last
        self._poll_client: SQSClient | None = None
        self._receiver: ThreadPoolExecutor | None = None
        self._courier: ThreadPoolExecutor | None = None

    # Receiving

    def basic_consume(self, queue: str, *args: Any, **kwargs: Any) -> Any:
        if self.hub is None:
            raise NotImplementedError("this transport receives on a worker's event loop only")
        if self._receiver is None:
            queues = len(self.predefined_queues)
            self._receiver = ThreadPoolExecutor(max_workers=POLLS * queues, thread_name_prefix="sqs-receive")
            self._courier = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqs-courier")
        return super().basic_consume(queue, *args, **kwargs)

    def basic_cancel(self, consumer_tag: str) -> None:
        with self._cancelling:
            self._asked.pop(self._tag_to_queue.get(consumer_tag), None)
            super().basic_cancel(consumer_tag)
        self._open_letterbox()
        for queue in [queue for queue in self._held if queue not in self._active_queues]:
            self._return_held(queue)

    def basic_qos(self, *args: Any, **kwargs: Any) -> None:
        super().basic_qos(*args, **kwargs)
        self._ask_again_soon()

    def _schedule_queue(self, queue: str) -> None:
        """Poll, if there is room that no open poll has asked for. Whatever makes room later calls this again.

        Where little comes, one poll is open, for one message: it may be abandoned. Where an answer was as long as it
        could be, the next asks for all there is room for, and need not wait for the answer to another.
        """
        asked = self._asked[queue]
        room = 0
        if self.qos.can_consume():
            lane = self._lanes.room(queue, asked=sum(asked), held=len(self._held[queue]))
            room = min(self._get_message_estimate() - sum(asked), lane)
        if queue not in self._active_queues or self._receiver is None or room < 1:
            return
        backlog = queue in self._backlog
        if not asked or (backlog and len(asked) < POLLS):
            count = min(receipt_handles.BATCH, room + self._ahead(queue)) if backlog else 1
            asked.append(count)
            self._receiver.submit(self._receive_in_thread, queue, self._new_queue(queue), count)

    def _ahead(self, queue: str) -> int:
        """Of an express queue nothing: what waits there waits for a place of its own tenant's."""
        if queue == lanes.EXPRESS or self._held[queue] or self._took is None:
            return 0
        if self._took > AHEAD_MOST_SECONDS:
            return 0
        return int(ENV.DPP_WORKER_CONCURRENCY * AHEAD_SECONDS / max(self._took, 0.001))

    def _receive_in_thread(self, queue: str, url: str, count: int) -> None:
        found: list[SqsMessage] | Exception
        try:
            if self._poll_client is None:
                seconds = ENV.DPP_SQS_WAIT_SECONDS + clients.SQS_TIMEOUT_SECONDS
                self._poll_client = clients.new_sqs(read_timeout_seconds=seconds, attempts=1)
            answer = self._poll_client.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=count,
                WaitTimeSeconds=ENV.DPP_SQS_WAIT_SECONDS,
                VisibilityTimeout=ENV.DPP_SQS_FIRST_VISIBILITY_SECONDS,
                MessageSystemAttributeNames=["ApproximateReceiveCount"],
            )
            found = [dict(message) for message in answer.get("Messages", [])]
        except Exception as error:  # noqa: BLE001  every failure means the same: pause, then ask again
            found = error
        with self._cancelling:
            wanted = queue in self._active_queues
            if wanted:
                self._letterbox.append((queue, count, found))
        if wanted:
            self.hub.call_soon(self._open_letterbox)
        elif isinstance(found, list):
            receipt_handles.release_receipts(url, [message["ReceiptHandle"] for message in found])

    def _open_letterbox(self) -> None:
        while self._letterbox:
            queue, count, found = self._letterbox.popleft()
            _polls_answered[0] += 1
            if count in self._asked[queue]:
                self._asked[queue].remove(count)
            self._backlog.discard(queue)
            if isinstance(found, Exception):
                self._pause(queue, found)
                continue
            if self._failures.pop(queue, 0):
                log.warning("queue %s answers again", queue)
            if len(found) >= min(count, ENV.DPP_WORKER_CONCURRENCY):
                self._backlog.add(queue)
            self._give_to_consumer(queue, found)
            self._ask_again_soon()

    def _pause(self, queue: str, error: Exception) -> None:
        self._failures[queue] += 1
        doublings = min(self._failures[queue] - 1, BACKOFF_DOUBLINGS_MAX)
        seconds = min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2**doublings)
        log.warning("queue %s does not answer, asking again in %.2f s", queue, seconds, exc_info=error)
        self.hub.call_later(seconds, self._schedule_queue, queue)

    def _give_to_consumer(self, queue: str, messages: list[SqsMessage]) -> None:
        """Poison must neither stop the worker nor the polling, nor take the messages behind it along."""
        url = self._new_queue(queue)
        waiting = deque(messages)
        placeless: list[SqsMessage] = []
        try:
            while waiting and (callback := self.connection._callbacks.get(queue)):  # noqa: SLF001  as kombu's own
                message = waiting.popleft()
                if not self._give_one(callback, message, queue, url):
                    placeless.append(message)
        finally:
            self._hold(queue, url, placeless)
            self._release(url, [message["ReceiptHandle"] for message in waiting])

    def _give_one(self, callback: Callable[[Any], None], message: SqsMessage, queue: str, url: str) -> bool:
        """False: it has no place now."""
        tag = message["ReceiptHandle"]
        try:
            obeyed = celery_message.read_celery_message(message["Body"])
            tenant_id = str(obeyed.kwargs.get("tenant_id", ""))
            if not self._lanes.take(queue, tag=tag, tenant_id=tenant_id, promised=sum(self._asked[lanes.RUNS])):
                return False
            self._given[tag] = time.monotonic()
            # Celery and kombu see what we have written anew, never what was sent.
            ours = message | {"Body": celery_message.write_celery_message(obeyed, queue=queue)}
            callback(self._message_to_python(ours, queue, url))
        except celery_message.NotOurs as refused:
            log.error("message %s is left to redrive: %s", message.get("MessageId"), refused)  # noqa: TRY400  no stack
        except Exception as error:  # what one message does to Celery is its own
            receives = message.get("Attributes", {}).get("ApproximateReceiveCount")
            log.exception(
                "message %s (receive %s) is left to redrive", message.get("MessageId"), receives, exc_info=error
            )
            if tag in self.qos._delivered:  # noqa: SLF001  kombu offers no question
                self.basic_reject(tag)
            self._lanes.leave(tag)
        return True

    # Messages that wait for a place

    def _hold(self, queue: str, url: str, messages: list[SqsMessage]) -> None:
        if not messages:
            return
        express = queue == lanes.EXPRESS
        seconds = ENV.DPP_SQS_FIRST_VISIBILITY_SECONDS * HOLD_SHARE if express else AHEAD_MOST_SECONDS
        until = time.monotonic() + seconds
        self._held[queue].extend(_Held(message, url, until) for message in messages)
        self.hub.call_later(seconds, self._send_old_again)
        while express and len(self._held[queue]) > lanes.HELD_MOST and self._courier is not None:
            self._courier.submit(_send_again_in_thread, self._held[queue].popleft(), delay_seconds=AGAIN_SECONDS)

    def _place_held(self) -> None:
        for queue in sorted(self._held, key=lambda name: name != lanes.EXPRESS):
            waiting = self._held[queue]
            for _ in range(len(waiting)):
                held = waiting.popleft()
                callback = self.connection._callbacks.get(queue)  # noqa: SLF001  as kombu's own
                if callback is None or not self._give_one(callback, held.message, queue, held.url):
                    waiting.append(held)

    def _send_old_again(self) -> None:
        now = time.monotonic()
        old = [one for waiting in self._held.values() for one in waiting if one.until <= now]
        for queue, waiting in self._held.items():
            self._held[queue] = deque(one for one in waiting if one.until > now)
        for held in old:
            if self._courier is not None:
                self._courier.submit(_send_again_in_thread, held)
        if old:
            self._ask_again_soon()

    def _return_held(self, queue: str) -> None:
        held = self._held.pop(queue)
        if held:
            self._release(held[0].url, [one.message["ReceiptHandle"] for one in held])

    # Finishing

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:  # noqa: FBT001, FBT002, ARG002  kombu's
        """The slot is free at once; the delete follows in a batch."""
        try:
            url = self.qos.get(delivery_tag).delivery_info["sqs_queue"]
        except KeyError:
            return
        virtual.Channel.basic_ack(self, delivery_tag)
        self._lanes.leave(delivery_tag)
        self._finished[url].append(delivery_tag)
        if len(self._finished[url]) >= receipt_handles.BATCH:
            self._send_deletes()
        elif self._flush_timer is None:
            self._flush_timer = self.hub.call_later(FLUSH_SECONDS, self._send_deletes)
        now = time.monotonic()
        took = now - self._given.pop(delivery_tag, now)
        self._took = took if self._took is None else self._took + TOOK_SHARE * (took - self._took)
        may_have_company = self._backlog and self._given
        self._ask_again_soon(after=min(COMPANY_SECONDS, took * COMPANY_SHARE) if may_have_company else 0.0)

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:  # noqa: FBT001, FBT002  kombu's
        """Without requeue the message is left to redrive; with it, it is visible again at once."""
        if requeue and (message := self.qos._delivered.get(delivery_tag)):  # noqa: SLF001  get() would raise
            self._release(message.delivery_info["sqs_queue"], [delivery_tag])
        virtual.Channel.basic_reject(self, delivery_tag, requeue=False)
        self._lanes.leave(delivery_tag)
        self._given.pop(delivery_tag, None)
        self._ask_again_soon()

    def _ask_again_soon(self, *, after: float = 0.0) -> None:
        """One question for all slots that become free until then; what cannot wait overtakes what could.

        By a timer, not `call_soon`: what is called soon from within the loop waits for its next event, up to a second;
        timers that are due run before the loop sleeps.
        """
        if self.hub is None or (self._next_question is not None and after > 0):
            return
        if self._next_question is not None:
            self._next_question.cancel()
        self._next_question = self.hub.call_later(after, self._ask_again)

    def _ask_again(self) -> None:
        self._next_question = None
        self._place_held()
        for queue in sorted(self._active_queues, key=lambda name: name != lanes.EXPRESS):
            if not self._failures.get(queue):  # after a failure the pause asks
                self._schedule_queue(queue)

    def _send_deletes(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        finished, self._finished = self._finished, defaultdict(list)
        for url, delivery_tags in finished.items():
            if self._courier is not None:
                self._courier.submit(receipt_handles.delete_receipts, url, delivery_tags)

    def _release(self, url: str, delivery_tags: list[str]) -> None:
        if delivery_tags and self._courier is not None:
            self._courier.submit(receipt_handles.release_receipts, url, delivery_tags)

    # Ending

    def close(self) -> None:
        """Wait for the open poll, send the last deletes, return what was received and not finished."""
        if not self.closed:
            for consumer_tag in list(self._consumers):
                self.basic_cancel(consumer_tag)
            if self._receiver is not None:
                self._receiver.shutdown(wait=True)
            self._open_letterbox()
            self._send_deletes()
            for url, delivery_tags in self._unfinished().items():
                self._release(url, delivery_tags)
            if self._courier is not None:
                self._courier.shutdown(wait=True)
                self._courier = None
        super().close()

    def _unfinished(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for delivery_tag, message in self.qos._delivered.items():  # noqa: SLF001  kombu offers no question
            if delivery_tag not in self.qos._dirty:  # noqa: SLF001
                found[message.delivery_info["sqs_queue"]].append(delivery_tag)
        return found

    # What kombu asks of the service on the loop, and need not

    def sqs(self, queue: str | None = None) -> "SQSClient":  # noqa: ARG002  one account, one client
        return clients.sqs_client()

    def _size(self, queue: str) -> int:  # noqa: ARG002
        """Asked when a queue is declared, for a number that is never read: a worker starts with the service away."""
        return 0

    def _delete_rejected_message(self, delivery_tag: str) -> None:
        """Never: see the module."""


def _send_again_in_thread(held: _Held, *, delay_seconds: int = 0) -> None:
    """As a new message first: a failure leaves the old one, which is visible again before long."""
    try:
        obeyed = celery_message.read_celery_message(held.message["Body"])
        group = str(obeyed.kwargs.get("tenant_id", "")) if ENV.DPP_SQS_GROUP_BY == "tenant" else None
        with closing(sqs_sender.sqs_sender_to(held.url)) as sender:
            sender.send(sqs_sender.QueueMessage(held.message["Body"], group=group or None, delay_seconds=delay_seconds))
    except (celery_message.NotOurs, sqs_sender.SendFailed) as error:
        log.warning("a message was not sent again and comes back by itself", exc_info=error)
    else:
        receipt_handles.delete_receipts(held.url, [held.message["ReceiptHandle"]])
        log.info("a message found no place and was sent again")


class Transport(SQS.Transport):  # type: ignore[misc]
    """`broker_transport` by this class's path; `broker_url` is plain `sqs://`."""

    Channel = Channel
