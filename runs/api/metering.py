"""What every request of a tenant costs it (a token) and learns for it (its balance), in one trip to Redis."""

from collections.abc import Callable, Sequence
from typing import Any, Self

from redis import RedisError
from redis.client import Pipeline
from rest_framework.request import Request

from budget.money import format_usd
from budget.redis import connection, view
from budget.redis.view import UNKNOWN, SeenBalance
from dpp_project.http import answers
from dpp_project.http.views import ApiView
from tenants import rate_limits
from tenants.permissions import principal_of
from tenants.rate_limits import Bucket, bucket_of


class Token:
    """What a request costs its tenant: taken in a trip of its own, or along with a use case's first trip.

    As a context it is taken when the block ends, at the latest, however it ends: a refused request was one, too.
    """

    def __init__(self, request: Request, bucket: Bucket, *, also: Callable[[Pipeline], object] | None = None) -> None:
        """`also` is asked in the trip of `take`; what it answered stands in `answered`."""
        self.answered: Any = None
        self._also = also
        self._request = request
        self._principal = principal_of(request)
        self._bucket = bucket
        self._asked = False

    def take(self) -> SeenBalance:
        """Take it, and look at the balance. Raises 429; without Redis the request passes or is refused, as set."""
        pipeline = connection.budget_client().pipeline(transaction=False)
        self.queue(pipeline)
        view.queue_balance(pipeline, self._principal.tenant_id)
        if self._also is not None:
            self._also(pipeline)
        try:
            rate, money, *more = pipeline.execute()
        except RedisError as error:
            self.missed(error)
            return UNKNOWN
        self.answered = more[0] if more else None
        seen = view.seen_balance(money)
        self.passed(rate, seen)
        return seen

    def queue(self, pipeline: Pipeline) -> None:
        self._asked = True
        rate_limits.queue_check(pipeline, self._principal, self._bucket)

    def passed(self, answer: Sequence[int], seen: SeenBalance) -> None:
        """Tell the caller the balance and the state of the bucket; raise 429 if it was empty."""
        tell_balance(self._request, seen.balance_micros)
        limit = rate_limits.limit_of(self._principal, self._bucket)
        rate_limits.enforce_rate_limit(
            self._request, rate_limits.rate_limit_decision(answer, bucket=self._bucket, limit=limit)
        )

    def missed(self, error: RedisError) -> None:
        rate_limits.pass_or_refuse_unmetered(error, bucket=self._bucket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._asked:
            self.take()


def look_at_metered_balance(tenant_id: str) -> SeenBalance:
    """The balance as it is now, after something has changed it."""
    try:
        return view.look_at_balance(connection.budget_client(), tenant_id)
    except RedisError:
        return UNKNOWN


def tell_balance(request: Request, balance_micros: int | None) -> None:
    answers.promise_headers(
        django_request(request), answers.balance_headers(shown_amount(balance_micros), balance_micros)
    )


def tell_costs(
    request: Request, *, reserved_micros: int, used_micros: int, balance_micros: int | None, tokens: int
) -> None:
    answers.promise_headers(
        django_request(request),
        {
            answers.COST_RESERVED: format_usd(reserved_micros),
            answers.COST_RESERVED_MICROS: str(reserved_micros),
            answers.COST_USED: format_usd(used_micros),
            answers.COST_USED_MICROS: str(used_micros),
            **answers.balance_headers(shown_amount(balance_micros), balance_micros),
            answers.TOKENS_CONSUMED: str(tokens),
        },
    )


def shown_amount(micros: int | None) -> str:
    """An amount as it is written; an unknown one as zero."""
    return format_usd(micros or 0)


def django_request(request: Request) -> Any:
    return request._request  # noqa: SLF001  DRF offers no public way to it


class MeteredView(ApiView):
    """A tenant's address: `self.money` is what was seen of its balance when it came in."""

    throttle_classes: Any = ()
    money: SeenBalance = UNKNOWN

    def meter(self, request: Request) -> None:
        self.money = Token(request, bucket_of(self, request.method or "")).take()
