"""Where the processor time of a submit and of a poll goes, part by part, in the thread that answers.

    make bench B=request_parts

The real handler in one process, one request after the other, without a server before it: what the benches `submit` and
`get` find beyond this is the server's loop, the way to the thread and back, and six threads at one interpreter. A
part's time is its own: what another part within it takes is that one's.
"""

import io
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

from bench._figures import tell
from bench._servers import stage
from bench.submit import BODY

KEY_VARIABLE: Final = "BENCH_API_KEY"
REQUESTS, ROUNDS, FIRST = 300, 5, 60
OUTERMOST: Final = "Django: handler, middleware, routes"


class Parts:
    """Processor time by part, of this thread."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inner = [0.0]

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        began = time.thread_time()
        self._inner.append(0.0)
        try:
            yield
        finally:
            took = time.thread_time() - began
            self.seconds[name] += took - self._inner.pop()
            self._inner[-1] += took

    def time(self, owner: Any, function: str, name: str) -> None:
        real = getattr(owner, function)

        @wraps(real)
        def timed(*arguments: Any, **options: Any) -> Any:
            with self.part(name):
                return real(*arguments, **options)

        setattr(owner, function, timed)


def take_apart(parts: Parts) -> None:
    from rest_framework.views import APIView

    from budget import services
    from dpp_project.http.middleware import RequestMiddleware
    from dpp_project.http.views import ApiView
    from runs import transitions
    from runs.api import views
    from runs.api.metering import Token
    from runs.reads import for_tenant
    from runs.submit import key_lock, wake_worker

    parts.time(APIView, "dispatch", "DRF's dispatch, the view between the parts")
    parts.time(ApiView, "initial", "key, scope, form of the answer")
    parts.time(RequestMiddleware, "_account", "log line and metrics")
    parts.time(key_lock, "take_key_lock", "rate, lock, mapping, glance: a trip to Redis")
    parts.time(views, "_submission", "body: parsed, checked, hashed")
    parts.time(transitions, "accept", "accept: a statement")
    parts.time(services, "hold", "hold: a trip to Redis")
    parts.time(transitions, "reserve", "reserve: a statement")
    parts.time(key_lock, "write_mapping", "mapping: a trip to Redis")
    parts.time(wake_worker, "send_wakeup", "message: a request to SQS")
    parts.time(views, "_accepted", "receipt and headers")
    parts.time(Token, "take", "rate and balance: a trip to Redis")
    parts.time(for_tenant, "run_of_tenant_with_inputs", "the run: a statement")
    parts.time(views, "_run_document_response", "document and headers")


def environ_of(method: str, path: str, body: bytes = b"", **headers: str) -> dict[str, Any]:
    from dpp_project.api_server import wsgi_environ

    sent = {"host": "127.0.0.1", "authorization": f"Bearer {os.environ[KEY_VARIABLE]}"} | headers
    if body:
        sent |= {"content-type": "application/json", "content-length": str(len(body))}
    environ = wsgi_environ.environ_of(
        {
            "http_version": "1.1",
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
            "method": method,
            "raw_path": path.encode(),
            "query_string": b"",
            "scheme": "http",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items()],
        }
    )
    return environ | {"wsgi.input": io.BytesIO(body)}


def measured(parts: Parts, ask: Callable[[], None]) -> dict[str, float]:
    """Milliseconds of one request by part, the median of the rounds."""
    rounds: dict[str, list[float]] = defaultdict(list)
    for _ in range(FIRST):
        ask()
    for _ in range(ROUNDS):
        parts.seconds.clear()
        for _ in range(REQUESTS):
            with parts.part(OUTERMOST):
                ask()
        for name, seconds in parts.seconds.items():
            rounds[name].append(seconds / REQUESTS * 1_000)
    return {name: statistics.median(found) for name, found in rounds.items()}


def in_the_stage() -> None:
    from django.core.wsgi import get_wsgi_application

    django = get_wsgi_application()
    from dpp_project.api_server.django_threads import ask_django

    parts, body, made = Parts(), json.dumps(BODY).encode(), [""]
    take_apart(parts)

    def submit() -> None:
        key = f"parts-{time.monotonic_ns()}"
        response, status, _ = ask_django(django, environ_of("POST", "/v1/runs", body, idempotency_key=key))
        assert status == 202, response.content
        made[0] = json.loads(response.content)["run_id"]
        response.close()

    def poll() -> None:
        response, status, _ = ask_django(django, environ_of("GET", f"/v1/runs/{made[0]}"))
        assert status == 200, response.content
        response.close()

    for name, one in (("submit", submit), ("poll", poll)):
        found = measured(parts, one)
        tell(name, sum(found.values()), "ms")
        for part, took in sorted(found.items(), key=lambda each: -each[1]):
            tell(f"{name}: {part}", took, "ms")


def main() -> None:
    if KEY_VARIABLE in os.environ:
        in_the_stage()
        return
    with stage() as here:
        command = [sys.executable, "-m", "bench.request_parts"]
        environ = here.environ | {KEY_VARIABLE: here.api_key}
        subprocess.run(command, env=environ, stderr=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    main()
