"""A customer's receiver of webhooks, over TLS on loopback: it keeps what came, and refuses one in ten at first."""

import base64
import hashlib
import hmac
import json
import random
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import trustme

from dpp_project.devstack import http

NAME: Final = "receiver.example"
EVENTS_OF_RUNS: Final = ("run.completed", "run.failed", "run.refunded")
REFUSED_SHARE: Final = 0.1


@dataclass(frozen=True)
class Letter:
    """A webhook as it came."""

    path: str
    webhook_id: str
    timestamp: str
    signatures: str
    body: bytes
    answered: int

    def is_signed(self, secret: str) -> bool:
        """By the standard's rule, but for its age: clocks of senders are an hour off here."""
        said = b".".join((self.webhook_id.encode(), self.timestamp.encode(), self.body))
        key = base64.b64decode(secret.removeprefix("whsec_"))
        wanted = "v1," + base64.b64encode(hmac.new(key, said, hashlib.sha256).digest()).decode()
        return wanted in self.signatures.split(" ")

    @property
    def told(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document


@dataclass
class Mailbox:
    chance: random.Random
    letters: list[Letter] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        webhook_id = headers.get("webhook-id", "")
        with self.guard:
            refuses = webhook_id not in self.refused and self.chance.random() < REFUSED_SHARE
            self.refused.add(webhook_id)
            status = 503 if refuses else 204
            self.letters.append(
                Letter(
                    path,
                    webhook_id,
                    headers.get("webhook-timestamp", ""),
                    headers.get("webhook-signature", ""),
                    body,
                    status,
                )
            )
        return status

    def taken(self, path: str) -> list[Letter]:
        with self.guard:
            return [letter for letter in self.letters if letter.path == path]


@dataclass(frozen=True)
class Endpoint:
    """A tenant's webhook at the receiver, and what came to it."""

    mailbox: Mailbox
    path: str
    webhook_id: str
    secret: str

    def taken(self) -> list[Letter]:
        return self.mailbox.taken(self.path)

    def close(self, api: str, key: str) -> None:
        """Nothing is told to it any more."""
        answer = http.call_api("DELETE", f"{api}/v1/webhooks/{self.webhook_id}", key=key)
        if answer.status != 204:
            raise RuntimeError(f"the webhook is still there: {answer.status} {answer.body}")


class Receiver:
    """`environ` is what a platform needs to reach it; `register` makes it a tenant's webhook."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        authority = trustme.CA()
        self._authority = folder / "receiver-ca.pem"
        authority.cert_pem.write_to_path(str(self._authority))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(NAME).configure_cert(tls)
        self.mailbox = Mailbox(random.Random(seed))  # noqa: S311  repeatable, no secret
        self._server = _server(self.mailbox, tls)
        self._thread = threading.Thread(target=self._server.serve_forever, name="receiver", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def environ(self) -> dict[str, str]:
        place = f"{NAME}=127.0.0.1:{self._server.server_address[1]}"
        return {"DPP_WEBHOOK_PRIVATE_HOSTS": place, "DPP_WEBHOOK_CA_FILE": str(self._authority)}

    def register(self, api: str, key: str, *, path: str, events: Sequence[str]) -> Endpoint:
        answer = http.call_api(
            "POST", f"{api}/v1/webhooks", key=key, send={"url": f"https://{NAME}{path}", "events": list(events)}
        )
        if answer.status != 201:
            raise RuntimeError(f"no webhook: {answer.status} {answer.body}")
        return Endpoint(self.mailbox, path, str(answer.body["webhook_id"]), str(answer.body["secret"]))


def _server(mailbox: Mailbox, tls: ssl.SSLContext) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            self.request = tls.wrap_socket(self.request, server_side=True)  # in the thread of this connection
            super().setup()

        def finish(self) -> None:
            super().finish()
            self.request.close()  # the server closes the one below, which lost its descriptor to this one

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            status = mailbox.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()
            self.close_connection = True

        def log_message(self, *_args: object) -> None:
            """Says nothing."""

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_args: object) -> None:
            """A sender that is killed breaks its connection off."""

    return Quiet(("127.0.0.1", 0), Handler)
