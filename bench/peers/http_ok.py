"""A server that says 200 to everything, for clients whose own CPU is measured. It prints its port."""

import asyncio
from typing import Final

ANSWER: Final = b'{"MessageId": "m", "MD5OfMessageBody": "m"}'
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._received, self._told_to_go_on = b"", False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n") + 4
        head = self._received[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if end < 4:
            return
        if len(self._received) < end + length:
            if b"100-continue" in head and not self._told_to_go_on:
                self._told_to_go_on = True
                self._transport.write(CONTINUE)
            return
        body = ANSWER if head.startswith(b"post") else b""
        self._received, self._told_to_go_on = self._received[end + length :], False
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
