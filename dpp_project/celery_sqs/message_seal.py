"""The seal of a queue message, over all of it that a worker obeys."""

import json
from typing import Any, Final

from dpp_project import seals

HEADER: Final = "dpp_seal"
_PURPOSE: Final = b"dpp queue message 1"


def seal_message(*, task: Any, task_id: Any, trace_id: Any, body: Any) -> str:
    return seals.seal_content(_PURPOSE, _content(task, task_id, trace_id, body))


def message_seal_holds(found: str, *, task: Any, task_id: Any, trace_id: Any, body: Any) -> bool:
    return seals.seal_holds(found, _PURPOSE, _content(task, task_id, trace_id, body))


def _content(*sealed: Any) -> bytes:
    return json.dumps(sealed).encode()
