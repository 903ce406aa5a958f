"""An answer that is waited for holds no thread, and is accounted for like every other."""

import asyncio
import io
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from dpp_project.api_server.django_threads import Answer, DjangoThreads, StreamLimits
from dpp_project.http import metrics
from dpp_project.http.later import CLIENT_LEFT, AnsweredLater
from dpp_project.http.middleware import RequestMiddleware
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("WSP-12")

View = Callable[[HttpRequest], HttpResponseBase]
ENVIRON: Final = {
    "REQUEST_METHOD": "GET",
    "PATH_INFO": "/v1/later",
    "SERVER_NAME": "here",
    "SERVER_PORT": "80",
    "HTTP_X_TRACE_ID": "later-1",
}


def a_django(view: View) -> Callable[..., Any]:
    def django(environ: dict[str, Any], start_response: Callable[..., Any]) -> HttpResponseBase:
        response = RequestMiddleware(view)(WSGIRequest(environ))
        start_response(f"{response.status_code} -", list(response.items()))
        return response

    return django


def rendered(came: Any) -> HttpResponse:
    if isinstance(came, Exception):
        return HttpResponse(type(came).__name__, status=503)
    return HttpResponse(came, content_type="text/plain")


class Client:
    """What the server gives an application: this one stays until `leaves` is called."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    async def receive(self) -> MutableMapping[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, _message: MutableMapping[str, Any]) -> None:
        raise AssertionError("nothing is streamed")


def on_the_loop(
    view: View, *clients: Client, then: Callable[[], Awaitable[None]], at_last: Callable[[], object] = lambda: None
) -> list[Answer | None]:
    async def all_of_them() -> list[Answer | None]:
        threads = DjangoThreads(a_django(view), 1, StreamLimits())
        try:
            asked = [
                asyncio.ensure_future(
                    threads.answer(
                        ENVIRON | {"wsgi.input": io.BytesIO()},
                        "someone",
                        client.receive,
                        client.send,
                        cut=lambda: None,
                    )
                )
                for client in clients
            ]
            await then()
            answers = await asyncio.gather(*asked)
            await asyncio.to_thread(at_last)  # while there is a thread to do it
            return answers
        finally:
            threads.close()

    return asyncio.run(all_of_them())


def left_so_far() -> float:
    return float(sum(bucket.get() for bucket in metrics.REQUEST_SECONDS.labels("GET", "unmatched", "4xx")._buckets))


def test_one_thread_carries_many_that_wait_and_all_have_their_trace() -> None:
    waiting: list[asyncio.Event] = []
    ready = asyncio.Event()

    async def wait() -> str:
        event = asyncio.Event()
        waiting.append(event)
        if len(waiting) == 3:
            ready.set()
        await event.wait()
        return "it is there"

    async def release() -> None:
        await ready.wait()  # all three have had the one thread, and none of them keeps it
        for event in waiting:
            event.set()

    answers = on_the_loop(lambda _request: AnsweredLater(wait, rendered), Client(), Client(), Client(), then=release)
    for answer in answers:
        assert answer is not None
        headers = dict(answer.headers)
        assert (answer.status, answer.body) == (200, b"it is there")
        assert headers[b"X-Trace-Id"] == b"later-1"
        assert headers[b"Content-Length"] == b"11"


def test_what_the_wait_raises_is_rendered() -> None:
    async def fails() -> str:
        raise ConnectionRefusedError

    async def nothing() -> None:
        return

    (answer,) = on_the_loop(lambda _request: AnsweredLater(fails, rendered), Client(), then=nothing)
    assert answer is not None
    assert answer.status == 503
    assert (b"Content-Type", b"application/problem+json") in answer.headers, "no error leaves in another form"


def test_a_client_that_leaves_ends_the_wait_and_is_counted() -> None:
    client = Client()
    begun, ended = asyncio.Event(), asyncio.Event()
    before = left_so_far()

    async def wait() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    async def leaves() -> None:
        await begun.wait()
        client.gone.set()

    def is_counted() -> None:
        wait_until(lambda: left_so_far() == before + 1, what=f"the log and the metric of a {CLIENT_LEFT}")

    view: View = lambda _request: AnsweredLater(wait, rendered)  # noqa: E731
    assert on_the_loop(view, client, then=leaves, at_last=is_counted) == [None]
    assert ended.is_set()


def test_without_a_loop_the_middleware_waits() -> None:
    async def wait() -> str:
        await asyncio.sleep(0)
        return "here"

    request = WSGIRequest(ENVIRON | {"wsgi.input": io.BytesIO()})
    response = RequestMiddleware(lambda _request: AnsweredLater(wait, rendered))(request)
    assert (response.status_code, response["Content-Length"]) == (200, "4")
    assert not isinstance(response, AnsweredLater)
