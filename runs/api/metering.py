"""What every request of a tenant costs it (a token) and learns for it (its balance), in one trip to Redis."""

from typing import Any, ClassVar

from redis import RedisError
from rest_framework.request import Request

from budget.money import format_usd
from budget.redis import connection, view
from budget.redis.view import UNKNOWN, SeenBalance
from dpp_project.http import answers
from dpp_project.http.views import ApiView
from tenants import rate_limits
from tenants.permissions import principal_of
from tenants.principals import Principal
from tenants.rate_limits import Bucket, bucket_of


def meter(request: Request, principal: Principal, bucket: Bucket) -> SeenBalance:
    """Take a token and look at the balance. Raises 429; without Redis the request passes or is refused, as set."""
    pipeline = connection.client().pipeline(transaction=False)
    rate_limits.queue_check(pipeline, principal, bucket)
    view.queue_balance(pipeline, principal.tenant_id)
    try:
        rate, money = pipeline.execute()
    except RedisError as error:
        rate_limits.unmetered(error, bucket=bucket)
        return UNKNOWN
    seen = view.seen_balance(money)
    tell_balance(request, seen.balance_micros)
    limit = rate_limits.limit_of(principal, bucket)
    rate_limits.enforce(request, rate_limits.decide(rate, bucket=bucket, limit=limit))
    return seen


def look(tenant_id: str) -> SeenBalance:
    """The balance as it is now, after something has changed it."""
    try:
        return view.look_at_balance(connection.client(), tenant_id)
    except RedisError:
        return UNKNOWN


def tell_balance(request: Request, balance_micros: int | None) -> None:
    answers.promise(django_request(request), {answers.BUDGET_REMAINING: shown(balance_micros)})


def tell_costs(request: Request, *, reserved: str, used: str, remaining: str, tokens: int) -> None:
    answers.promise(
        django_request(request),
        {
            answers.COST_RESERVED: reserved,
            answers.COST_USED: used,
            answers.BUDGET_REMAINING: remaining,
            answers.TOKENS_CONSUMED: str(tokens),
        },
    )


def shown(micros: int | None) -> str:
    """An amount as it is written; an unknown one as zero."""
    return format_usd(micros or 0)


def django_request(request: Request) -> Any:
    return request._request  # noqa: SLF001  DRF offers no public way to it


class MeteredView(ApiView):
    """A tenant's address: `self.money` is what was seen of its balance when it came in."""

    throttle_classes: Any = ()
    meters_itself: ClassVar[frozenset[str]] = frozenset()
    """Methods that take their token in a trip of their own."""

    money: SeenBalance = UNKNOWN

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        method = request.method or ""
        if method not in self.meters_itself:
            self.money = meter(request, principal_of(request), bucket_of(self, method))
