# ruff: noqa: SLF001  this file is about what is inside ministack
# mypy: disable-error-code="import-not-found"
"""ministack as the devstack needs it. Run by the Python of .venv-devstack: `aws_server.py PORT FOLDER`.

ministack 1.5.33 alone forgets every queue when it is killed, wakes long polls late and cannot redrive. Here:
- A message is in a journal before its sender gets an answer; so is its deletion, alone or with all of its queue. A
  snapshot of the rest (receive counts, visibility, bucket settings) follows within a second or so, and right after any
  change to a queue itself. Objects in S3 are files, written by ministack before it answers. After kill -9 at worst a
  receive is forgotten: the message comes again, as SQS may always do.
- A send wakes waiting receivers at once.
- StartMessageMoveTask, ListMessageMoveTasks and ListDeadLetterSourceQueues exist.

It reaches into ministack's internals, which is why requirements/devstack.in pins the version.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

PORT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])
(FOLDER / "tmp").mkdir(parents=True, exist_ok=True)
os.environ.update(
    # Canonical queue URLs carry this port and are shown with the caller's: the real port may change between starts.
    GATEWAY_PORT="4566",
    SERVICES="sqs,s3",
    PERSIST_STATE="0",
    S3_PERSIST="1",
    S3_DATA_DIR=str(FOLDER / "objects"),
    TMPDIR=str(FOLDER / "tmp"),
    SFTP_ENABLED="0",
    IOT_MTLS_ENABLED="0",
    DOCKER_HOST="unix:///nonexistent",  # it would look for containers to reap
    LOG_LEVEL="WARNING",
)
os.environ.pop("MINISTACK_HOST", None)

from hypercorn.asyncio import serve  # noqa: E402  ministack reads its environment when imported
from hypercorn.config import Config  # noqa: E402
from ministack import app as ministack  # noqa: E402
from ministack.core import persistence  # noqa: E402
from ministack.services import s3, sqs  # noqa: E402

AwsAnswer = dict[str, Any]
AwsHandler = Callable[[AwsAnswer, str], Any]

CHANGES_A_QUEUE = ("CreateQueue", "DeleteQueue", "SetQueueAttributes", "TagQueue", "UntagQueue")
SNAPSHOT_SECONDS = 0.5
LONGEST_NAP_SECONDS = 0.1


def encode(value: object) -> str:
    return json.dumps(value, default=persistence._json_default, separators=(",", ":"))


def decode(text: str) -> Any:
    return json.loads(text, object_hook=persistence._json_object_hook)


class Store:
    """State on disk: a snapshot that names a journal, and the journals from that one on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.generation = 0
        self.changed = False
        self._s3_before = ""

    def load(self) -> None:
        snapshot = self.folder / "sqs.json"
        if snapshot.exists():
            state = decode(snapshot.read_text(encoding="utf-8"))
            self.generation = state["generation"]
            sqs.load_persisted_state(state["sqs"])
        for number in self._journals():
            if number >= self.generation:
                self._replay(self._journal_path(number))
                self.generation = number
        buckets = self.folder / "s3.json"
        if buckets.exists():
            s3.load_persisted_state(decode(buckets.read_text(encoding="utf-8")))
        self.journal = self._journal_path(self.generation).open("a", encoding="utf-8")
        self.snapshot()

    def record(self, entry: AwsAnswer) -> None:
        """In the kernel's hands when this returns: a killed process cannot take it back."""
        self.journal.write(encode(entry) + "\n")
        self.journal.flush()
        self.changed = True

    def snapshot(self) -> None:
        """All queues as they are now. A new journal begins first; old ones go last, so a crash between replays both."""
        self.changed = False
        self.generation += 1
        self.journal.close()
        self.journal = self._journal_path(self.generation).open("a", encoding="utf-8")
        queues = {"queues": sqs._queues, "queue_name_to_url": sqs._queue_name_to_url}
        self._write("sqs.json", encode({"generation": self.generation, "sqs": queues}))
        for number in self._journals():
            if number < self.generation:
                self._journal_path(number).unlink()

    def snapshot_buckets(self) -> None:
        state = encode(s3.get_state())
        if state != self._s3_before:
            self._write("s3.json", state)
            self._s3_before = state

    async def keep(self) -> None:
        """Snapshot what changed, spending at most a twentieth of the time on it."""
        while True:
            began = time.monotonic()
            if self.changed:
                self.snapshot()
            self.snapshot_buckets()
            await asyncio.sleep(max(SNAPSHOT_SECONDS, 20 * (time.monotonic() - began)))

    def _write(self, name: str, text: str) -> None:
        draft = self.folder / f"{name}.new"
        draft.write_text(text, encoding="utf-8")
        draft.replace(self.folder / name)

    def _journal_path(self, number: int) -> Path:
        return self.folder / f"sqs.journal.{number}"

    def _journals(self) -> list[int]:
        return sorted(int(path.suffix[1:]) for path in self.folder.glob("sqs.journal.*"))

    def _replay(self, path: Path) -> None:
        queues = {queue["attributes"]["QueueArn"]: queue for _, queue in sqs._queues.all_items()}
        present = {message["id"] for queue in queues.values() for message in queue["messages"]}
        gone: set[str] = set()
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                entry = decode(line)
            except ValueError:
                break  # the last line, cut by a full disk: its sender had no answer
            if "gone" in entry:
                gone.update(entry["gone"])
            elif entry["queue"] in queues and entry["message"]["id"] not in present:
                queues[entry["queue"]]["messages"].append(entry["message"])
                present.add(entry["message"]["id"])
        for queue in queues.values():
            queue["messages"] = [message for message in queue["messages"] if message["id"] not in gone]


class Bell:
    """Wakes every waiting receiver; each looks at its own queue and sleeps again."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return


store = Store(FOLDER)
bell = Bell()
_send, _receive = sqs._act_send_message, sqs._act_receive_message
_moves: dict[str, list[AwsAnswer]] = {}


def send_message(data: AwsAnswer, queue_url: str) -> AwsAnswer:
    answer: AwsAnswer = _send(data, queue_url)
    queue = sqs._get_q(data.get("QueueUrl", queue_url))
    for message in reversed(queue["messages"]):
        if message["id"] == answer["MessageId"]:
            store.record({"queue": queue["attributes"]["QueueArn"], "message": message})
            break
    bell.ring()
    return answer


async def receive_message(data: AwsAnswer, queue_url: str) -> AwsAnswer:
    queue = sqs._get_q(data.get("QueueUrl", queue_url))
    asked = data.get("WaitTimeSeconds")
    wait = int(asked if asked is not None else queue["attributes"].get("ReceiveMessageWaitTimeSeconds", "0"))
    end = time.monotonic() + wait
    while True:
        answer: AwsAnswer = await _receive({**data, "WaitTimeSeconds": 0}, queue_url)
        left = end - time.monotonic()
        if answer or left <= 0:
            store.changed = store.changed or bool(answer)
            return answer
        await bell.wait(min(LONGEST_NAP_SECONDS, left))


def deleting_handler(handler: AwsHandler) -> AwsHandler:
    def delete(data: AwsAnswer, queue_url: str) -> AwsAnswer:
        queue = sqs._get_q(data.get("QueueUrl", queue_url))
        before = {message["id"]: message for message in queue["messages"]}
        answer: AwsAnswer = handler(data, queue_url)
        gone = before.keys() - {message["id"] for message in queue["messages"]}
        if gone:
            store.record({"gone": sorted(gone)})
        return answer

    return delete


def then_snapshot(handler: AwsHandler) -> AwsHandler:
    def change(data: AwsAnswer, queue_url: str) -> AwsAnswer:
        answer: AwsAnswer = handler(data, queue_url)
        store.snapshot()
        return answer

    return change


def then_remember(handler: AwsHandler) -> AwsHandler:
    def change(data: AwsAnswer, queue_url: str) -> AwsAnswer:
        answer: AwsAnswer = handler(data, queue_url)
        store.changed = True
        bell.ring()
        return answer

    return change


def sources_of(dead_letter_arn: str) -> list[str]:
    found = []
    for url in list(sqs._queues):
        policy = sqs._queues[url]["attributes"].get("RedrivePolicy")
        if policy and json.loads(policy).get("deadLetterTargetArn") == dead_letter_arn:
            found.append(url)
    return found


def list_sources(data: AwsAnswer, queue_url: str) -> AwsAnswer:
    queue = sqs._get_q(data.get("QueueUrl", queue_url))
    urls = [sqs._externalize_url(url) for url in sources_of(queue["attributes"]["QueueArn"])]
    return {"queueUrls": urls}


def start_move(data: AwsAnswer, _queue_url: str) -> AwsAnswer:
    """Redrive at once: what is visible in the dead letter queue returns to its source, as if newly sent."""
    arn = data["SourceArn"]
    source = sqs._queue_by_arn(arn)
    if source is None:
        raise sqs._Err("ResourceNotFoundException", "The resource that SourceArn names does not exist.")
    urls = sources_of(arn)
    if data.get("DestinationArn"):
        destination = sqs._queue_by_arn(data["DestinationArn"])
    else:
        destination = sqs._queues[urls[0]] if urls else None
    if destination is None:
        raise sqs._Err("ResourceNotFoundException", "There is no queue to move the messages to.")
    now = time.time()
    moved = [message for message in source["messages"] if message["visible_at"] <= now]
    source["messages"] = [message for message in source["messages"] if message["visible_at"] > now]
    for message in moved:
        message.update(receipt_handle=None, visible_at=now, receive_count=0, first_receive_at=None, enqueued_at=now)
        destination["messages"].append(message)
    store.snapshot()
    bell.ring()
    task = {
        "TaskHandle": os.urandom(16).hex(),
        "Status": "COMPLETED",
        "SourceArn": arn,
        "ApproximateNumberOfMessagesMoved": len(moved),
        "StartedTimestamp": int(now * 1000),
    }
    _moves.setdefault(arn, []).insert(0, task)
    return {"TaskHandle": task["TaskHandle"]}


def list_moves(data: AwsAnswer, _queue_url: str) -> AwsAnswer:
    return {"Results": _moves.get(data["SourceArn"], [])[: int(data.get("MaxResults", 1))]}


def install_aws_handlers() -> None:
    sqs._act_send_message = send_message  # SendMessageBatch calls it by this name
    handlers = sqs._HANDLERS
    handlers.update(SendMessage=send_message, ReceiveMessage=receive_message)
    handlers.update(
        ListDeadLetterSourceQueues=list_sources, StartMessageMoveTask=start_move, ListMessageMoveTasks=list_moves
    )
    for name in ("DeleteMessage", "DeleteMessageBatch", "PurgeQueue"):
        handlers[name] = deleting_handler(handlers[name])
    for name in ("ChangeMessageVisibility", "ChangeMessageVisibilityBatch"):
        handlers[name] = then_remember(handlers[name])
    for name in CHANGES_A_QUEUE:
        handlers[name] = then_snapshot(handlers[name])


async def main() -> None:
    store.load()
    install_aws_handlers()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    config = Config()
    config.bind = [f"127.0.0.1:{PORT}"]
    config.keep_alive_timeout = 75
    config.graceful_timeout = 0.5
    config.shutdown_timeout = 2
    config.loglevel = "WARNING"
    keeper = asyncio.create_task(store.keep())
    shutdown: Callable[[], Awaitable[object]] = stop.wait
    await serve(ministack.app, config, shutdown_trigger=shutdown)
    keeper.cancel()
    store.snapshot()
    store.snapshot_buckets()


if __name__ == "__main__":
    asyncio.run(main())
