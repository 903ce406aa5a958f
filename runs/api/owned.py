"""The run that an address names, for its owner."""

from rest_framework.request import Request

from budget.redis.view import SeenBalance
from dpp_project.http.handlers import NOT_FOUND_DETAIL
from dpp_project.http.path_ids import id_in_path
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode
from runs.api import documents
from runs.api.metering import tell_costs
from runs.models import Run
from runs.reads import for_tenant
from runs.submit.answer import GONE_DETAIL
from tenants.permissions import principal_of


def owned_run(request: Request, text: str, money: SeenBalance) -> Run:
    """The tenant's run. Another's, an unknown one and a malformed id are the same 404; one past its time is 410."""
    run = for_tenant.run_of_tenant_with_inputs(principal_of(request).tenant_id, id_in_path(text))
    if run is None:
        raise not_found()
    refuse_gone(request, run, money)
    return run


def refuse_gone(request: Request, run: Run, money: SeenBalance) -> None:
    if for_tenant.is_gone(run):
        tell_costs_of_run(request, run, money)
        raise Problem(ReasonCode.GONE, GONE_DETAIL, run_id=str(run.run_id))


def not_found() -> Problem:
    return Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)


def tell_costs_of_run(request: Request, run: Run, money: SeenBalance) -> None:
    tell_costs_of(request, run, documents.cost_document(run, balance_micros=money.balance_micros))


def tell_costs_of(request: Request, run: Run, cost: documents.Cost) -> None:
    """The headers repeat the body: one reading serves both."""
    tell_costs(
        request,
        reserved_micros=cost.reserved_usd_micros,
        used_micros=cost.used_usd_micros,
        balance_micros=cost.budget_remaining_usd_micros,
        tokens=documents.tokens_of(run),
    )
