"""Sends to SQS with little CPU: botocore's credentials, a signature of our own, plain kept-alive connections.

boto3 takes almost half of the interpreter's time on the submit path; of what it does, sending one text to one known
address needs a signature and a socket. The signature (SigV4) is made for this one shape of request, its derived key
kept for the day it holds; a test compares every request, byte for byte, with what boto3 signs and sends, with session
tokens and with credentials that renew themselves.

A send is tried twice, DPP_SQS_TIMEOUT_MS each, where the failure may pass: no connection, no answer, 5xx, throttling.
It may so be taken twice, which is harmless: a message wakes a worker, and a run starts by compare-and-set. A send that
failed may have been accepted all the same: a caller that acts on the failure claims the run first.
"""

import hashlib
import hmac
import http.client
import json
import random
import select
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from boto3.session import Session
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError
from botocore.httpsession import get_cert_path

from dpp_project.aws import sqs_client
from dpp_project.process_env import ENV
from dpp_project.processes.per_process import PerProcess

BATCH: Final = 10
ATTEMPTS: Final = 2
PAUSE_SECONDS: Final = 0.05
_JSON: Final = "application/x-amz-json-1.0"
_PASSING: Final = frozenset(
    {"RequestThrottled", "ThrottlingException", "Throttling", "KmsThrottled", "ServiceUnavailable"}
)


@dataclass(frozen=True, slots=True)
class Message:
    body: str
    group: str | None = None
    """Fair queues: messages of one group do not delay those of the others."""

    def fields(self) -> dict[str, str]:
        fields = {"MessageBody": self.body}
        return fields if self.group is None else fields | {"MessageGroupId": self.group}


class SendFailed(Exception):  # noqa: N818  an outcome
    """The message is not known to be in the queue, and may be there all the same."""


class Refused(SendFailed):
    """SQS answered that it does not take the message: wrong queue, wrong key, wrong request."""


class Unreachable(SendFailed):
    """No answer, or none that tells: a broken connection, a timeout, 5xx, throttling."""


class Connections:
    """Kept-alive connections to one endpoint; as many as threads that send at once."""

    def __init__(self, endpoint: str, *, timeout_seconds: float) -> None:
        parts = urlsplit(endpoint)
        self._host, self._port = str(parts.hostname), parts.port
        self._timeout_seconds = timeout_seconds
        self._tls = _tls_context() if parts.scheme == "https" else None
        self._idle: deque[http.client.HTTPConnection] = deque()

    def post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        return self.exchange("POST", "/", body, headers)

    def exchange(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        connection = self._take()
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            content = answer.read()
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            self._idle.append(connection)
        return answer.status, content

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> http.client.HTTPConnection:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if not _was_closed(connection):
                return connection
            connection.close()
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_seconds)
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout_seconds, context=self._tls)


class Sender:
    """Thread-safe. `credentials` is asked on each attempt, so that renewed ones are used."""

    def __init__(
        self, *, endpoint: str, queue_url: str, region: str, credentials: Callable[[], Any], timeout_seconds: float
    ) -> None:
        self._queue_url = queue_url
        self._credentials = credentials
        self._signer = Signer(endpoint, region)
        self._connections = Connections(endpoint, timeout_seconds=timeout_seconds)

    def send(self, message: Message) -> None:
        self._call("SendMessage", message.fields())

    def send_batch(self, messages: Sequence[Message]) -> dict[int, SendFailed]:
        """Up to ten at once. Answers the failures by position; raises when the request itself failed."""
        entries = [{"Id": str(at)} | message.fields() for at, message in enumerate(messages)]
        answer = self._call("SendMessageBatch", {"Entries": entries})
        return {
            int(entry["Id"]): Refused(entry["Code"]) if entry.get("SenderFault") else Unreachable(entry["Code"])
            for entry in answer.get("Failed") or ()
        }

    def close(self) -> None:
        self._connections.close()

    def _call(self, action: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        body = json.dumps({"QueueUrl": self._queue_url, **fields}).encode()
        for attempts_left in range(ATTEMPTS - 1, -1, -1):
            try:
                return _judge(*self._connections.post(body, self.signed(action, body)))
            except Unreachable:
                if not attempts_left:
                    raise
            except (OSError, http.client.HTTPException, BotoCoreError) as error:
                if not attempts_left:
                    raise Unreachable(type(error).__name__) from error
            time.sleep(random.uniform(0, PAUSE_SECONDS))  # noqa: S311  spreads those that failed together
        raise AssertionError("the last attempt returns or raises")

    def signed(self, action: str, body: bytes) -> dict[str, str]:
        """All headers of the request, signed now."""
        return self._signer.headers(self._credentials(), f"AmazonSQS.{action}", body)


class Signer:
    """AWS Signature Version 4 for `POST` of a JSON document to one endpoint; the headers signed are always the same."""

    def __init__(self, url: str, region: str) -> None:
        parts = urlsplit(url)
        default_port = {"http": 80, "https": 443}[parts.scheme]
        self._host = str(parts.hostname) if parts.port in {None, default_port} else f"{parts.hostname}:{parts.port}"
        self._region = region
        self._derived: tuple[str, str, bytes] = ("", "", b"")

    def headers(self, credentials: Any, target: str, body: bytes) -> dict[str, str]:
        stamp = _utc_now()
        scope = f"{stamp[:8]}/{self._region}/sqs/aws4_request"
        token = f"x-amz-security-token:{credentials.token}\n" if credentials.token else ""
        names = f"content-type;host;x-amz-date;{'x-amz-security-token;' if token else ''}x-amz-target;x-amzn-query-mode"
        canonical = (
            f"POST\n/\n\ncontent-type:{_JSON}\nhost:{self._host}\nx-amz-date:{stamp}\n{token}x-amz-target:{target}\n"
            f"x-amzn-query-mode:true\n\n{names}\n{hashlib.sha256(body).hexdigest()}"
        )
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = _hmac(self._key(credentials.secret_key, stamp[:8]), text).hex()
        headers = {
            "X-Amz-Target": target,
            "Content-Type": _JSON,
            "x-amzn-query-mode": "true",
            "X-Amz-Date": stamp,
            "Authorization": f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope},"
            f" SignedHeaders={names}, Signature={signature}",
        }
        return headers | {"X-Amz-Security-Token": credentials.token} if credentials.token else headers

    def _key(self, secret: str, day: str) -> bytes:
        """Derived anew each day, and with each new secret."""
        known_secret, known_day, key = self._derived
        if (known_secret, known_day) != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, "sqs", "aws4_request"):
                key = _hmac(key, part)
            self._derived = (secret, day, key)
        return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def _utc_now() -> str:
    """The machine's own time, whatever the platform's clock was moved to: AWS compares it with its own."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def _judge(status: int, content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if status == 200 and isinstance(answer, dict):
        return answer
    code = str(answer.get("__type", "")).rpartition("#")[2] if isinstance(answer, dict) else ""
    if status >= 500 or status in {200, 429} or code in _PASSING:
        raise Unreachable(f"HTTP {status} {code}".rstrip())
    raise Refused(f"HTTP {status} {code}".rstrip())


def _was_closed(connection: http.client.HTTPConnection) -> bool:
    """An idle connection on which something can be read was closed by the other side."""
    sock = connection.sock
    if sock is None:
        return True
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    return bool(poller.poll(0))


def _tls_context() -> Any:
    import ssl

    return ssl.create_default_context(cafile=get_cert_path(True))


def _credentials() -> Callable[[], Any]:
    if ENV.AWS_ACCESS_KEY_ID is not None and ENV.AWS_SECRET_ACCESS_KEY is not None:
        given = Credentials(ENV.AWS_ACCESS_KEY_ID, ENV.AWS_SECRET_ACCESS_KEY, ENV.AWS_SESSION_TOKEN)
        return lambda: given
    found = Session().get_credentials()
    if found is None:
        raise Refused("no AWS credentials are to be found")
    return found.get_frozen_credentials


@PerProcess
def shared() -> Sender:
    """This process's sender to the queue of runs."""
    return Sender(
        endpoint=sqs_client.client().meta.endpoint_url,
        queue_url=ENV.DPP_QUEUE_URL,
        region=ENV.AWS_REGION,
        credentials=_credentials(),
        timeout_seconds=ENV.DPP_SQS_TIMEOUT_MS / 1_000,
    )
