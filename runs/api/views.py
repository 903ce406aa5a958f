"""/v1/runs and what hangs below it. Views validate and translate; what happens stands in the use cases they call."""

import re
from typing import Final
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel
from rest_framework.request import Request

from budget.redis.view import SeenBalance
from budget.redis.windows import LeastRevisions
from dpp_project import actors, clock
from dpp_project.http import answers, bodies, idempotency_keys, problems
from dpp_project.http.bodies import read_query
from dpp_project.http.handlers import NOT_FOUND_DETAIL
from dpp_project.http.problems import Problem
from dpp_project.observe import tracing
from dpp_project.reasons import ReasonCode
from runs.api import documents, openapi
from runs.api.metering import MeteredView, Token, django_request, look, tell_balance, tell_costs
from runs.api.queries import RunsQuery
from runs.finish import cancellation
from runs.finish.cancellation import Canceled
from runs.models import Run
from runs.reads import for_tenant, listing
from runs.submissions import Submission
from runs.submit import request_body, request_hash, submission
from runs.submit.answer import GONE_DETAIL, SubmitRefusal, Submitted
from tenants.permissions import principal_of
from tenants.principals import Principal
from tenants.rate_limits import Bucket
from tenants.scopes import Scope

_RUN_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class RunsView(MeteredView):
    required_scopes: Final = {"GET": Scope.RUNS_READ, "POST": Scope.RUNS_WRITE}
    rate_bucket: Final = {"GET": Bucket.POLL, "POST": Bucket.SUBMIT}

    def meter(self, request: Request) -> None:
        if request.method != "POST":  # a submit takes its token in the trip that takes its lock
            super().meter(request)

    @extend_schema(**openapi.SUBMIT)
    def post(self, request: Request) -> HttpResponse:
        """Submit a run: its price ceiling is held, and a worker is woken.

        Safe to repeat with the same Idempotency-Key: the same request is answered with the same receipt and makes no
        second run; another request under the key is refused.
        """
        with Token(request, Bucket.SUBMIT) as token:
            key = idempotency_keys.read(request.headers.get(idempotency_keys.HEADER))
            answer = submission.submit(
                tenant_id=principal_of(request).tenant_id,
                idempotency_key=key,
                read=lambda: _submission(request, key),
                entry=token,
                capped=_capped_scopes(principal_of(request)),
            )
        if isinstance(answer, SubmitRefusal):
            raise _refused(request, answer)
        return _accepted(request, answer)

    @extend_schema(**openapi.LIST)
    def get(self, request: Request) -> HttpResponse:
        """The tenant's runs, newest first."""
        query = read_query(request, RunsQuery)
        page = listing.list_runs(
            tenant_id=principal_of(request).tenant_id,
            filters=query.filters(),
            after=query.cursor,
            limit=query.limit,
            now=clock.now(),
        )
        return _json_response(
            documents.RunPage(
                runs=[documents.summary(run, balance_micros=self.money.balance_micros) for run in page.runs],
                next_cursor=None if page.next is None else str(page.next),
            )
        )


class RunView(MeteredView):
    required_scopes: Final = Scope.RUNS_READ
    rate_bucket: Final = Bucket.POLL

    @extend_schema(**openapi.READ)
    def get(self, request: Request, run_id: str) -> HttpResponse:
        """One run: where it stands, what it cost, and where its result lies. Poll it every 1.5 s."""
        return _shown(request, _owned(request, run_id, self.money), self.money)


class ArtifactView(MeteredView):
    required_scopes: Final = Scope.RUNS_READ
    rate_bucket: Final = Bucket.POLL

    @extend_schema(**openapi.ARTIFACT)
    def get(self, request: Request, run_id: str, name: str) -> HttpResponse:
        """Where one of the files lies that a completed run's envelope names."""
        run = _owned(request, run_id, self.money)
        found = documents.artifact(run, name)
        if found is None:
            raise _not_found()
        _tell_costs_of(request, run, documents.cost(run, balance_micros=self.money.balance_micros))
        return _json_response(found)


class CancelView(MeteredView):
    required_scopes: Final = Scope.RUNS_WRITE
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(**openapi.CANCEL)
    def post(self, request: Request, run_id: str) -> HttpResponse:
        """End a run. Queued, it costs nothing; at work, the minimum fee. A run that is finishing cannot be canceled."""
        run = _owned(request, run_id, self.money)
        principal = principal_of(request)
        answer = cancellation.cancel(
            tenant_id=principal.tenant_id, run_id=run.run_id, actor=actors.owner(principal.prefix)
        )
        if isinstance(answer, Canceled):
            return _shown(request, answer.run, look(principal.tenant_id), status=200 if answer.ended else 202)
        if answer is None:
            raise _not_found()
        _tell_costs_of(request, answer.run, documents.cost(answer.run, balance_micros=self.money.balance_micros))
        stage = answer.run.finalize_stage
        raise Problem(
            ReasonCode.RUN_NOT_CANCELABLE,
            f"The run is {answer.run.status}{' and being finished' if stage == 'CLAIMED' else ''}.",
            run_id=str(answer.run.run_id),
        )


def _capped_scopes(principal: Principal) -> list[str | None]:
    """The scopes whose counters the door looks at before it makes a row; None is the tenant's."""
    scopes: list[str | None] = [None] if principal.tenant_caps_revision else []
    return scopes + ([str(principal.lineage_id)] if principal.lineage_caps_revision else [])


def _take_trace_id(request: Request, of_body: str | None) -> None:
    """The header comes first; the middleware has made an id where there was none, which the body's replaces."""
    given = tracing.sanitise(of_body)
    if given is not None and tracing.from_headers(request.headers) is None:
        tracing.bind(given)


def _submission(request: Request, key: str) -> Submission:
    """The body, checked. Raises a Problem that names each wrong field."""
    body = request_body.read(bodies.document(request))
    payload = request_hash.payload_of(body)
    _take_trace_id(request, body.meta.trace_id)
    principal = principal_of(request)
    return Submission(
        tenant_id=principal.tenant_id,
        idempotency_key=key,
        pack_type=body.pack_type,
        profile_version=body.meta.profile_version,
        payload_hash=payload.sha256,
        reserved_micros=body.reservation.max_cost_micros,
        inputs=payload.inputs,
        artifacts=payload.artifacts,
        timebox_sec=body.reservation.timebox_sec,
        min_reliability_score=body.reservation.min_reliability_score,
        inline=bool(body.options.inline),
        trace_id=tracing.current(),
        lineage_id=principal.lineage_id,
        least=LeastRevisions(principal.tenant_caps_revision, principal.lineage_caps_revision),
        may_start=principal.submits_enabled,
    )


def _accepted(request: Request, answer: Submitted) -> HttpResponse:
    answers.note(
        django_request(request),
        run_id=str(answer.receipt.run_id),
        replayed=answer.replayed,
        version_after=answer.version,
        reserved_usd_micros=answer.reserved_micros,
    )
    tell_costs(
        request,
        reserved_micros=answer.reserved_micros,
        used_micros=answer.used_micros,
        balance_micros=answer.balance_micros,
        tokens=answer.tokens,
    )
    response = _json_response(answer.receipt, status=202)
    response.headers["Location"] = answer.receipt.poll.href
    if answer.replayed:
        response.headers["Idempotent-Replayed"] = "true"
    return response


def _refused(request: Request, refusal: SubmitRefusal) -> Problem:
    if refusal.balance_micros is not None:
        tell_balance(request, refusal.balance_micros)
    return problems.refused(refusal, asked="run", stands_for="request")


def _owned(request: Request, text: str, money: SeenBalance) -> Run:
    """The tenant's run. Another's, an unknown one and a malformed id are the same 404; one past its time is 410."""
    run = (
        for_tenant.run_of_tenant_with_inputs(principal_of(request).tenant_id, UUID(text))
        if _RUN_ID.fullmatch(text)
        else None
    )
    if run is None:
        raise _not_found()
    if for_tenant.is_gone(run):
        _tell_costs_of(request, run, documents.cost(run, balance_micros=money.balance_micros))
        raise Problem(ReasonCode.GONE, GONE_DETAIL, run_id=str(run.run_id))
    return run


def _not_found() -> Problem:
    return Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)


def _shown(request: Request, run: Run, money: SeenBalance, *, status: int = 200) -> HttpResponse:
    found = documents.document(run, balance_micros=money.balance_micros)
    _tell_costs_of(request, run, found.cost)
    return _json_response(found, status=status)


def _tell_costs_of(request: Request, run: Run, cost: documents.Cost) -> None:
    """The headers repeat the body: one reading serves both."""
    tell_costs(
        request,
        reserved_micros=cost.reserved_usd_micros,
        used_micros=cost.used_usd_micros,
        balance_micros=cost.budget_remaining_usd_micros,
        tokens=documents.tokens_of(run),
    )


def _json_response(body: BaseModel, *, status: int = 200) -> HttpResponse:
    return HttpResponse(body.model_dump_json(), status=status, content_type="application/json")
