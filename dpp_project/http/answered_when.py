"""Answers that wait, and say what came of the wait. No thread and no connection is held meanwhile (later.py)."""

from collections.abc import Awaitable, Callable
from typing import Any

from django.http import HttpRequest, HttpResponse

from dpp_project.http import answers, handlers
from dpp_project.http.asked_to_wait import AskedToWait
from dpp_project.http.later import AnsweredLater
from dpp_project.stores.postgres import DATABASE_AWAY
from dpp_project.waiting.places import BODY_BYTES_MAX
from dpp_project.waiting.until import WaitEnd


def answered_when(
    request: HttpRequest,
    asked: AskedToWait,
    wait: Callable[[], Awaitable[WaitEnd]],
    *,
    ended: Callable[[], HttpResponse],
    known: Callable[[WaitEnd], HttpResponse],
) -> HttpResponse:
    """The answer of `ended`, which reads anew, once it has happened; else that of `known`, which must not need the
    database: where that is away, many waits may end without it.
    """
    if int(request.META.get("CONTENT_LENGTH") or 0) > BODY_BYTES_MAX:
        return asked.tell(known(WaitEnd.NO_PLACE), heeded=False)

    def render(came: Any) -> HttpResponse:
        if isinstance(came, Exception):
            return handlers.answer_error(request, came)
        try:
            answers.note_for_log(request, wait=came.value)
            return asked.tell(_response_at_wait_end(came, ended, known), heeded=came is not WaitEnd.NO_PLACE)
        except Exception as error:  # noqa: BLE001  every exception has its problem document
            return handlers.answer_error(request, error)

    return AnsweredLater(wait, render, asked_for=True)


def _response_at_wait_end(
    how: WaitEnd, ended: Callable[[], HttpResponse], known: Callable[[WaitEnd], HttpResponse]
) -> HttpResponse:
    if how is WaitEnd.ENDED:
        try:
            return ended()
        except DATABASE_AWAY:  # it answered a moment ago; what was read before is true, if older
            return known(how)
    return known(how)
