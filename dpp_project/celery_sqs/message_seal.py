"""The seal of a queue message: an HMAC over all of it that a worker obeys.

Its key is derived from DPP_SECRET_KEY, which every process has: no further secret is to be kept. Messages are sealed
with that one; the seals of DPP_SECRET_KEY_FALLBACKS hold too, so that it can be changed while messages are under way.
"""

import hashlib
import hmac
import json
from functools import cache
from typing import Any, Final

from dpp_project.process_env import ENV

HEADER: Final = "dpp_seal"
_PURPOSE: Final = b"dpp queue message 1"


def seal(*, task: Any, task_id: Any, trace_id: Any, body: Any) -> str:
    return _seal(ENV.DPP_SECRET_KEY, task=task, task_id=task_id, trace_id=trace_id, body=body)


def holds(found: str, *, task: Any, task_id: Any, trace_id: Any, body: Any) -> bool:
    secrets = (ENV.DPP_SECRET_KEY, *ENV.DPP_SECRET_KEY_FALLBACKS)
    said = found.encode("utf-8", "surrogatepass")
    return any(
        hmac.compare_digest(said, _seal(secret, task=task, task_id=task_id, trace_id=trace_id, body=body).encode())
        for secret in secrets
    )


def _seal(secret: str, **sealed: Any) -> str:
    content = json.dumps([sealed[name] for name in ("task", "task_id", "trace_id", "body")]).encode()
    return hmac.new(_key(secret), content, hashlib.sha256).hexdigest()


@cache
def _key(secret: str) -> bytes:
    return hmac.new(secret.encode(), _PURPOSE, hashlib.sha256).digest()
