"""A Celery message (protocol 2) as a stock worker reads it from SQS, made without Celery's producer, and read again.

`apply_async` builds a client for each connection and lets threads wait for one another; a message is a few lines of
JSON. `argsrepr` and `kwargsrepr` stay empty, since Celery would log them.

Celery obeys much of what a message says: `timelimit` kills, `expires` and `eta` drop and delay, `callbacks`, `chain`
and `chord` send tasks of their own, `retries`, `group`, `reply_to`, `ignore_result`, `shadow`, `compression`, content
types and stamps do more. Here a worker takes from a message what its seal holds together, task, id, trace id and
keyword arguments, and writes the message anew from these: all else that it says, now or in a later Celery, is not seen.
"""

import base64
import binascii
import json
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpp_project.celery_sqs import message_seal
from dpp_project.process_env import ENV

_ORIGIN = f"dpp@{socket.gethostname()}"
_EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


class NotOurs(Exception):  # noqa: N818  named for the finding
    """A message without our seal, or not in our form."""


@dataclass(frozen=True, slots=True)
class Obeyed:
    """All that a message may say."""

    task: str
    task_id: str
    trace_id: Any
    kwargs: dict[str, Any]


def pack_celery_message(*, task: str, kwargs: Mapping[str, str], queue: str, trace_id: str | None) -> str:
    """The text to send; each call is a message of its own, with an id of its own."""
    return write_celery_message(Obeyed(str(task), str(uuid.uuid4()), trace_id, dict(kwargs)), queue=queue)


def read_celery_message(text: str) -> Obeyed:
    """Raises NotOurs. One without a seal is of a sender before 0.2, and taken only while DPP_QUEUE_UNSEALED says so."""
    try:
        document = json.loads(base64.b64decode(text, validate=True))
        headers, body = document["headers"], document["body"]
        task, task_id, trace_id = headers["task"], headers["id"], headers.get("trace_id")
        found = headers.get(message_seal.HEADER)
        arguments, kwargs, _ = json.loads(base64.b64decode(body, validate=True))
    except (binascii.Error, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise NotOurs("not in our form") from None
    if found is None and ENV.DPP_QUEUE_UNSEALED == "refuse":
        raise NotOurs("not sealed")
    if found is not None and not (
        isinstance(found, str)
        and message_seal.message_seal_holds(found, task=task, task_id=task_id, trace_id=trace_id, body=body)
    ):
        raise NotOurs("the seal does not hold")
    if not (isinstance(task, str) and _is_id(task_id) and arguments == [] and isinstance(kwargs, dict)):
        raise NotOurs("not in our form")
    if task.startswith("celery."):
        raise NotOurs("one of Celery's own tasks")  # each app has them, and they send tasks by their arguments
    return Obeyed(task, task_id, trace_id, kwargs)


def _is_id(value: object) -> bool:
    try:
        return isinstance(value, str) and str(uuid.UUID(value)) == value
    except ValueError:
        return False


def write_celery_message(obeyed: Obeyed, *, queue: str) -> str:
    """The message as it is sent, and as a worker writes one anew that it has read."""
    task_id, body = obeyed.task_id, _base64(_compact([[], obeyed.kwargs, _EMBED]))
    document = {
        "body": body,
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py",
            "task": obeyed.task,
            "id": task_id,
            "root_id": task_id,
            "parent_id": None,
            "group": None,
            "retries": 0,
            "eta": None,
            "expires": None,
            "timelimit": [None, None],
            "ignore_result": True,
            "origin": _ORIGIN,
            "argsrepr": "",
            "kwargsrepr": "",
            "trace_id": obeyed.trace_id,
            message_seal.HEADER: message_seal.seal_message(
                task=obeyed.task, task_id=task_id, trace_id=obeyed.trace_id, body=body
            ),
        },
        "properties": {
            "correlation_id": task_id,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": queue},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": task_id,
        },
    }
    return _base64(_compact(document))


def _compact(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
