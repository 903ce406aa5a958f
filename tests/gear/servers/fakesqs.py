"""An SQS endpoint in memory, fast, with a chosen latency, that counts what it is asked. For benches, not for proof.

    python -m tests.gear.servers.fakesqs --port 0 --latency-ms 8

It speaks the JSON protocol for one queue, whatever its URL. It prints its port. A poll whose connection is gone still
takes messages, as an abandoned poll at the real service may; `--attentive` makes it notice.
"""

import argparse
import asyncio
import hashlib
import json
import uuid
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

VISIBILITY_SECONDS = 120.0
Document = dict[str, Any]


class Queue:
    def __init__(self, *, latency_seconds: float) -> None:
        self.latency_seconds = latency_seconds
        self.visible: deque[tuple[str, int]] = deque()
        self.held: dict[str, tuple[str, int, asyncio.TimerHandle]] = {}
        self.pollers: deque[asyncio.Future[None]] = deque()
        self.counts: Counter[str] = Counter()
        self.actions: dict[str, Callable[[Document], Document]] = {
            "SendMessage": self.send,
            "SendMessageBatch": self.send_batch,
            "DeleteMessage": self.delete,
            "DeleteMessageBatch": self.delete_batch,
            "ChangeMessageVisibility": self.change_visibility,
            "ChangeMessageVisibilityBatch": self.change_visibility_batch,
            "GetQueueAttributes": self.attributes,
            "Stats": self.stats,
            "Reset": self.reset,
        }

    async def act(self, action: str, asked: Document, gone: Callable[[], bool]) -> Document:
        self.counts[action] += 1
        if self.latency_seconds and action not in ("Stats", "Reset"):
            await asyncio.sleep(self.latency_seconds)
        if action == "ReceiveMessage":
            return await self.receive(asked, gone)
        return self.actions[action](asked)

    def _put(self, body: str, receives: int = 0) -> None:
        self.visible.append((body, receives))
        while self.pollers:
            poller = self.pollers.popleft()
            if not poller.done():
                poller.set_result(None)
                return

    def send(self, asked: Document) -> Document:
        self._put(asked["MessageBody"])
        return {"MessageId": uuid.uuid4().hex, "MD5OfMessageBody": _md5(asked["MessageBody"])}

    def send_batch(self, asked: Document) -> Document:
        return {"Successful": [{"Id": entry["Id"], **self.send(entry)} for entry in asked["Entries"]], "Failed": []}

    async def receive(self, asked: Document, gone: Callable[[], bool]) -> Document:
        if not self.visible and asked.get("WaitTimeSeconds"):
            poller = asyncio.get_running_loop().create_future()
            self.pollers.append(poller)
            await asyncio.wait([poller], timeout=asked["WaitTimeSeconds"])
            poller.cancel()
        if gone():
            self.counts["polls_abandoned"] += 1
            return {}
        messages: list[Document] = []
        while self.visible and len(messages) < asked.get("MaxNumberOfMessages", 1):
            body, receives = self.visible.popleft()
            receipt = uuid.uuid4().hex
            self._hold(receipt, body, receives + 1, VISIBILITY_SECONDS)
            messages.append(
                {
                    "MessageId": receipt,
                    "ReceiptHandle": receipt,
                    "Body": body,
                    "MD5OfBody": _md5(body),
                    "Attributes": {"ApproximateReceiveCount": str(receives + 1)},
                }
            )
        self.counts["messages_received"] += len(messages)
        return {"Messages": messages} if messages else {}

    def _hold(self, receipt: str, body: str, receives: int, seconds: float) -> None:
        timer = asyncio.get_running_loop().call_later(seconds, self._expire, receipt)
        self.held[receipt] = (body, receives, timer)

    def _expire(self, receipt: str) -> None:
        body, receives, _ = self.held.pop(receipt)
        self._put(body, receives)

    def delete(self, asked: Document) -> Document:
        held = self.held.pop(asked["ReceiptHandle"], None)
        if held is not None:
            self.counts["messages_deleted"] += 1
            held[2].cancel()
        return {}

    def delete_batch(self, asked: Document) -> Document:
        for entry in asked["Entries"]:
            self.delete(entry)
        return {"Successful": [{"Id": entry["Id"]} for entry in asked["Entries"]], "Failed": []}

    def change_visibility(self, asked: Document) -> Document:
        held = self.held.pop(asked["ReceiptHandle"], None)
        if held is not None:
            held[2].cancel()
            self._hold(asked["ReceiptHandle"], held[0], held[1], asked["VisibilityTimeout"])
        return {}

    def change_visibility_batch(self, asked: Document) -> Document:
        for entry in asked["Entries"]:
            self.change_visibility(entry)
        return {"Successful": [{"Id": entry["Id"]} for entry in asked["Entries"]], "Failed": []}

    def attributes(self, _: Document) -> Document:
        return {
            "Attributes": {
                "ApproximateNumberOfMessages": str(len(self.visible)),
                "ApproximateNumberOfMessagesNotVisible": str(len(self.held)),
                "RedrivePolicy": "{}",
            }
        }

    def stats(self, _: Document) -> Document:
        return {**self.counts, "visible": len(self.visible), "held": len(self.held)}

    def reset(self, _: Document) -> Document:
        for _body, _receives, timer in self.held.values():
            timer.cancel()
        self.held.clear()
        self.visible.clear()
        self.counts.clear()
        return {}


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


async def answer(queue: Queue, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, attentive: bool) -> None:
    def gone() -> bool:
        return attentive and reader.at_eof()

    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").lower()
            headers = dict(line.split(": ", 1) for line in head.strip().split("\r\n")[1:])
            asked = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
            action = next(
                name
                for name in (*queue.actions, "ReceiveMessage")
                if headers["x-amz-target"].endswith("." + name.lower())
            )
            body = json.dumps(await queue.act(action, asked, gone)).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nx-amzn-RequestId: fake\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body) + body
            )
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def serve(*, port: int, latency_seconds: float, attentive: bool) -> None:
    queue = Queue(latency_seconds=latency_seconds)
    server = await asyncio.start_server(
        lambda reader, writer: answer(queue, reader, writer, attentive=attentive), "127.0.0.1", port, limit=2**20
    )
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201  whoever started it reads the port
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--attentive", action="store_true")
    given = parser.parse_args()
    asyncio.run(serve(port=given.port, latency_seconds=given.latency_ms / 1_000, attentive=given.attentive))


if __name__ == "__main__":
    main()
