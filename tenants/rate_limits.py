"""Rate limits: each tenant has two token buckets, one for polling and one for submitting (DPP-10).

Reports of auth errors have a third, as large as that for submits: a storm of failed sign-ins must not keep the
tenant's own runs out. The account pages have a fourth: a person who comes to stop an agent is not kept out by it.

Requests without a valid key have no tenant and are not metered here, but by address, before they come to Django
(`dpp_project/api_server/strangers.py`).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog
from django.conf import settings
from redis.client import Pipeline
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from dpp_project.constants import RATE_LIMIT_RETRY_AFTER_SECONDS
from dpp_project.http import answers
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode
from dpp_project.stores import redis
from dpp_project.stores.lua import LuaScript
from tenants import metrics
from tenants.principals import Principal

if TYPE_CHECKING:  # rest_framework.views imports this module while it is itself being imported
    from rest_framework.views import APIView

log = structlog.get_logger("dpp.tenants")

TAKE_TOKEN: Final = LuaScript(Path(__file__).parent / "lua" / "token_bucket.lua")
WINDOW_SECONDS: Final = 60
PAGES_PER_MINUTE: Final = 120
UNMETERED_RETRY_AFTER_SECONDS: Final = 2
LOG_EVERY_SECONDS: Final = 10.0


class Bucket(StrEnum):
    POLL = "poll"
    SUBMIT = "submit"
    REPORT = "report"
    PAGES = "pages"


_ADVICE: Final = {
    Bucket.POLL: " Wait instead: GET /v1/runs/{run_id}?wait=55 takes one and answers as soon as the run has ended."
}


@dataclass(frozen=True, slots=True)
class Decision:
    """The bucket's answer to one request."""

    bucket: Bucket
    limit: int
    allowed: bool
    remaining: int
    reset_seconds: int

    def headers(self) -> dict[str, str]:
        """Both families: X-RateLimit-*, and the IETF draft's RateLimit with its policy.

        Reset is the number of seconds until the whole limit is there again.
        """
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": str(self.reset_seconds),
            "RateLimit-Policy": f'"{self.bucket.value}";q={self.limit};w={WINDOW_SECONDS}',
            "RateLimit": f'"{self.bucket.value}";r={self.remaining};t={self.reset_seconds}',
        }


def bucket_key(tenant_id: str, bucket: Bucket) -> str:
    return f"rate:{tenant_id}:{bucket.value}"


def limit_of(principal: Principal, bucket: Bucket) -> int:
    if bucket is Bucket.PAGES:
        return PAGES_PER_MINUTE
    return principal.poll_rate_per_minute if bucket is Bucket.POLL else principal.submit_rate_per_minute


def check_rate_limit(principal: Principal, bucket: Bucket) -> Decision:
    """Take a token, in a round trip of its own. Raises RedisError."""
    limit = limit_of(principal, bucket)
    answer = TAKE_TOKEN(redis.redis_client(), keys=[bucket_key(principal.tenant_id, bucket)], args=[limit])
    return rate_limit_decision(answer, bucket=bucket, limit=limit)


def queue_check(pipeline: Pipeline, principal: Principal, bucket: Bucket) -> None:
    """Add the token\'s script to a pipeline with other commands; read its answer with `rate_limit_decision`."""
    TAKE_TOKEN.queue(pipeline, keys=[bucket_key(principal.tenant_id, bucket)], args=[limit_of(principal, bucket)])


def rate_limit_decision(answer: Sequence[int], *, bucket: Bucket, limit: int) -> Decision:
    allowed, remaining, reset_seconds = answer
    return Decision(bucket, limit, bool(allowed), int(remaining), int(reset_seconds))


class _Reporter:
    """Reports unmetered requests: counts each, logs once in a while."""

    def __init__(self) -> None:
        self._logged_at = float("-inf")

    def report(self, error: Exception, *, mode: str, bucket: Bucket) -> None:
        metrics.RATE_LIMIT_FAILURES.labels(mode).inc()
        now = time.monotonic()
        if now - self._logged_at >= LOG_EVERY_SECONDS:
            self._logged_at = now
            event = "unmetered requests refused" if mode == "closed" else "requests pass unmetered"
            log.error(event, mode=mode, bucket=bucket.value, exc_info=error)


_reporter = _Reporter()


def pass_or_refuse_unmetered(error: Exception, *, bucket: Bucket) -> None:
    """Redis did not answer: let the request pass (open) or raise 503 (closed), as the setting says."""
    mode = settings.RATE_LIMIT_ON_REDIS_FAILURE
    _reporter.report(error, mode=mode, bucket=bucket)
    if mode == "closed":
        raise Problem(
            ReasonCode.SERVICE_UNAVAILABLE,
            "Requests cannot be metered at the moment, and unmetered ones are not let through.",
            headers={"Retry-After": str(UNMETERED_RETRY_AFTER_SECONDS)},
        ) from None


def enforce_rate_limit(request: Request, decision: Decision) -> None:
    """Put the decision's headers on the answer, and raise 429 if the bucket was empty."""
    answers.promise_headers(request._request, decision.headers())  # noqa: SLF001  DRF offers no public way to it
    if not decision.allowed:
        metrics.RATE_LIMITED.labels(decision.bucket.value).inc()
        used = f"This tenant has used its {decision.limit} {decision.bucket.value} requests a minute."
        raise Problem(
            ReasonCode.RATE_LIMITED,
            used + _ADVICE.get(decision.bucket, ""),
            headers={"Retry-After": str(RATE_LIMIT_RETRY_AFTER_SECONDS)},
        )


class TenantRateThrottle(BaseThrottle):
    """DRF's hook, after authentication and permission. The view's `rate_bucket` names one bucket, or one a method.

    A view that meters inside a pipeline of its own (queue_check, decide, enforce) declares its bucket and sets
    `throttle_classes = ()`.
    """

    def allow_request(self, request: Request, view: "APIView") -> bool:
        principal: Any = request.user
        if isinstance(principal, Principal):
            bucket = bucket_of(view, request.method or "")
            try:
                decision = check_rate_limit(principal, bucket)
            except redis.RedisError as error:
                pass_or_refuse_unmetered(error, bucket=bucket)
            else:
                enforce_rate_limit(request, decision)
        return True


def bucket_of(view: "APIView | type[APIView]", method: str) -> Bucket:
    """The bucket of this method; polling unless the view says otherwise."""
    declared: Bucket | Mapping[str, Bucket] = getattr(view, "rate_bucket", Bucket.POLL)
    return declared if isinstance(declared, Bucket) else declared.get(method, Bucket.POLL)
