"""A Celery message (protocol 2) as a stock worker reads it from SQS, made without Celery's producer.

`apply_async` builds a client for each connection and lets threads wait for one another; a message is a few lines of
JSON. `argsrepr` and `kwargsrepr` stay empty, since Celery would log them.
"""

import base64
import json
import socket
import uuid
from collections.abc import Mapping

_ORIGIN = f"dpp@{socket.gethostname()}"
_EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def pack(*, task: str, kwargs: Mapping[str, str], queue: str, trace_id: str | None) -> str:
    """The text to send; each call is a message of its own, with an id of its own."""
    task_id = str(uuid.uuid4())
    document = {
        "body": _base64(_compact([[], kwargs, _EMBED])),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py",
            "task": task,
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
            "trace_id": trace_id,
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
