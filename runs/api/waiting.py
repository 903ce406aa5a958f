"""Answers that wait for a run to end."""

from collections.abc import Callable
from functools import partial

from django.http import HttpResponse
from redis import RedisError
from rest_framework.request import Request

from dpp_project.http.answered_when import answered_when
from dpp_project.http.asked_to_wait import AskedToWait
from dpp_project.waiting.until import WaitEnd
from runs.api.metering import django_request
from runs.models import Run
from runs.states import Stage
from runs.waiting.until_ended import until_ended
from tenants import rate_limits
from tenants.permissions import principal_of
from tenants.rate_limits import Bucket


def has_ended(run: Run) -> bool:
    return run.finalize_stage == Stage.COMMITTED


def when_ended(
    request: Request,
    run: Run,
    asked: AskedToWait,
    *,
    ended: Callable[[], HttpResponse],
    known: Callable[[WaitEnd], HttpResponse],
) -> HttpResponse:
    """The answer of `ended`, which reads the run anew, once it has ended; else that of `known`."""
    if has_ended(run):
        return asked.tell(known(WaitEnd.ENDED), heeded=True)
    wait = partial(
        until_ended,
        run_id=run.run_id,
        tenant_id=run.tenant_id,
        key_id=principal_of(request).key_id,
        seen_version=run.version,
        seconds=asked.seconds,
    )
    return answered_when(django_request(request), asked, wait, ended=ended, known=known)


def may_poll(request: Request) -> bool:
    """Take a token for the wait beside what the request itself took. Without one there is no wait, and no refusal:
    what was done stands, and its answer must come.
    """
    try:
        return rate_limits.check_rate_limit(principal_of(request), Bucket.POLL).allowed
    except RedisError:
        return False
