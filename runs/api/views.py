"""/v1/runs and what hangs below it. Views validate and translate; what happens stands in the use cases they call."""

from functools import partial
from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel
from rest_framework.request import Request

from budget.redis.view import SeenBalance
from dpp_project import clock
from dpp_project.http import answers, bodies, idempotency_keys, problems
from dpp_project.http.asked_to_wait import AskedToWait, asked_to_wait
from dpp_project.http.bodies import read_query
from dpp_project.http.path_ids import id_in_path
from dpp_project.http.problems import Problem
from dpp_project.observe import tracing
from dpp_project.reasons import ReasonCode
from dpp_project.stores import redis
from dpp_project.stores.postgres import DATABASE_AWAY
from dpp_project.stores.redis import RedisError
from dpp_project.waiting.until import WaitEnd
from runs import progress
from runs.api import documents, openapi, waiting
from runs.api.metering import MeteredView, Token, django_request, look_at_metered_balance, tell_balance, tell_costs
from runs.api.owned import not_found, owned_run, refuse_gone, tell_costs_of, tell_costs_of_run
from runs.api.queries import RunsQuery
from runs.cancel import cancellation
from runs.cancel.cancellation import Canceled
from runs.finish import data_deletion
from runs.finish.data_deletion import NotEnded
from runs.models import Run
from runs.progress import RunProgress
from runs.reads import for_tenant, listing
from runs.submissions import Submission
from runs.submit import asking, derived_key, request_body, request_hash, submission
from runs.submit.answer import SubmitRefusal, Submitted
from tenants.permissions import owner_of, principal_of
from tenants.rate_limits import Bucket
from tenants.scopes import Scope


class RunsView(MeteredView):
    required_scopes: Final = {"GET": Scope.RUNS_READ, "POST": Scope.RUNS_WRITE}
    rate_bucket: Final = {"GET": Bucket.POLL, "POST": Bucket.SUBMIT}
    reads_query = frozenset({"GET", "POST"})

    def meter(self, request: Request) -> None:
        if request.method != "POST":  # a submit takes its token in the trip that takes its lock
            super().meter(request)

    @extend_schema(**openapi.SUBMIT)
    def post(self, request: Request) -> HttpResponse:
        """Submit a run: its price ceiling is held, and a worker is woken.

        Safe to repeat with the same Idempotency-Key: the same request is answered with the same receipt and makes no
        second run; another request under the key is refused. With `DPP-Derive-Key: 1` instead of a key the same request
        within ten minutes is the same purchase. With `wait` it answers 200 with the receipt and the run, should that
        end in time, and takes a token of the bucket for polling as well.
        """
        principal, derived = principal_of(request), None
        with Token(request, Bucket.SUBMIT) as token:
            asked = asked_to_wait(request)
            key = idempotency_keys.read_or_derive(request.headers)
            where: Any = {"tenant_id": principal.tenant_id, "entry": token, "capped": asking.capped_scopes(principal)}
            where["share_weight"] = principal.share_weight
            if key is None:
                derived, answer = submission.submit_derived(
                    read=lambda: _submission(request, derived_key.NOT_YET), **where
                )
            else:
                answer = submission.submit_run(idempotency_key=key, read=lambda: _submission(request, key), **where)
        if isinstance(answer, SubmitRefusal):
            raise _problem_of_submit_refusal(request, answer)
        accepted = _accepted(request, answer, derived)
        return accepted if asked is None else _with_the_run(request, answer, accepted, asked)

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
                runs=[documents.run_summary(run, balance_micros=self.money.balance_micros) for run in page.runs],
                next_cursor=None if page.next is None else str(page.next),
            )
        )


class RunView(MeteredView):
    required_scopes: Final = Scope.RUNS_READ
    rate_bucket: Final = Bucket.POLL
    reads_query = frozenset({"GET"})
    said: RunProgress | None = None

    def meter(self, request: Request) -> None:
        token = Token(request, Bucket.POLL, also=partial(progress.queue_last, run_id=self.kwargs["run_id"]))
        self.money = token.take()
        self.said = progress.last_of(token.answered or ())

    @extend_schema(**openapi.READ)
    def get(self, request: Request, run_id: str) -> HttpResponse:
        """One run: where it stands, what it cost, and where its result lies.

        With `wait` the answer comes as soon as the run has ended, or after so many seconds as it stands then. Wait
        rather than poll: each request takes a token of the bucket, however long it waits.
        """
        asked = asked_to_wait(request)
        run = owned_run(request, run_id, self.money)
        if asked is None:
            return _run_document_response(request, run, self.money, said=self.said)

        def ended() -> HttpResponse:
            return _run_document_response(
                request, owned_run(request, run_id, self.money), look_at_metered_balance(run.tenant_id)
            )

        def known(how: WaitEnd) -> HttpResponse:
            refuse_gone(request, run, self.money)
            if how is not WaitEnd.TIME_OVER:
                return _run_document_response(request, run, self.money, said=self.said)
            return _run_document_response(request, run, look_at_metered_balance(run.tenant_id), said=_said_last(run))

        return waiting.when_ended(request, run, asked, ended=ended, known=known)


class ArtifactView(MeteredView):
    required_scopes: Final = Scope.RUNS_READ
    rate_bucket: Final = Bucket.POLL

    @extend_schema(**openapi.ARTIFACT)
    def get(self, request: Request, run_id: str, name: str) -> HttpResponse:
        """Where one of the files lies that a completed run's envelope names."""
        run = owned_run(request, run_id, self.money)
        found = documents.artifact_document(run, name)
        if found is None:
            raise not_found()
        tell_costs_of_run(request, run, self.money)
        return _json_response(found)


class CancelView(MeteredView):
    required_scopes: Final = Scope.RUNS_WRITE
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(**openapi.CANCEL)
    def post(self, request: Request, run_id: str) -> HttpResponse:
        """End a run. Queued, it costs nothing; at work, the minimum fee. A run that is finishing cannot be canceled."""
        run = owned_run(request, run_id, self.money)
        principal = principal_of(request)
        answer = cancellation.cancel_run(tenant_id=principal.tenant_id, run_id=run.run_id, actor=owner_of(request))
        if isinstance(answer, Canceled):
            answer.run.metadata = run.metadata
            return _run_document_response(
                request, answer.run, look_at_metered_balance(principal.tenant_id), status=200 if answer.ended else 202
            )
        if answer is None:
            raise not_found()
        tell_costs_of_run(request, answer.run, self.money)
        raise Problem(ReasonCode.RUN_NOT_CANCELABLE, _state(answer.run), run_id=str(answer.run.run_id))


class RunDataView(MeteredView):
    required_scopes: Final = Scope.RUNS_WRITE
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(**openapi.DELETE_DATA)
    def delete(self, request: Request, run_id: str) -> HttpResponse:
        """Delete what an ended run holds: inputs, result, files and metadata. Its cost and the ledger stay.

        From now on it answers 410, as after its retention; asked again, this answers the same.
        """
        principal = principal_of(request)
        answer = data_deletion.delete_run_data(
            tenant_id=principal.tenant_id, run_id=id_in_path(run_id), actor=owner_of(request)
        )
        if answer is None:
            raise not_found()
        tell_costs_of_run(request, answer.run, self.money)
        if isinstance(answer, NotEnded):
            raise Problem(ReasonCode.RUN_NOT_ENDED, _state(answer.run), run_id=str(answer.run.run_id))
        return HttpResponse(status=204)


def _state(run: Run) -> str:
    return f"The run is {run.status}{' and being finished' if run.finalize_stage == 'CLAIMED' else ''}."


def _take_trace_id(request: Request, of_body: str | None) -> None:
    """The header comes first; the middleware has made an id where there was none, which the body's replaces."""
    given = tracing.sanitise_trace_id(of_body)
    if given is not None and tracing.from_headers(request.headers) is None:
        tracing.bind_trace_id(given)


def _submission(request: Request, key: str) -> Submission:
    """The body, checked. Raises a Problem that names each wrong field."""
    body = request_body.read_run_request(bodies.read_json_document(request))
    payload = request_hash.payload_of(body)
    _take_trace_id(request, body.meta.trace_id)
    return asking.submission_of(
        body, payload, principal=principal_of(request), idempotency_key=key, trace_id=tracing.current_trace_id()
    )


def _accepted(request: Request, answer: Submitted, derived: str | None) -> HttpResponse:
    answers.note_for_log(
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
    if derived is not None:
        response.headers[idempotency_keys.DERIVED] = derived
        if answer.replayed:
            response.headers[idempotency_keys.DERIVED_HINT] = derived_key.HINT
    return response


def _with_the_run(request: Request, answer: Submitted, accepted: HttpResponse, asked: AskedToWait) -> HttpResponse:
    """The receipt with the run, should it end in time and the key read runs. Whatever fails from here on, the receipt
    is answered.
    """
    tenant_id, run_id = principal_of(request).tenant_id, answer.receipt.run_id

    def read() -> Run | None:
        try:
            return for_tenant.run_of_tenant_with_inputs(tenant_id, run_id)
        except DATABASE_AWAY:
            return None

    def both(run: Run | None) -> HttpResponse:
        if run is None or not waiting.has_ended(run):
            return accepted
        found = documents.run_document(run, balance_micros=look_at_metered_balance(tenant_id).balance_micros)
        tell_costs_of(request, run, found.cost)
        response = _json_response(documents.RunWithReceipt(**answer.receipt.model_dump(), run=found))
        for name, value in accepted.headers.items():
            response.headers.setdefault(name, value)
        return response

    if Scope.RUNS_READ not in principal_of(request).scopes:
        return asked.tell(accepted, heeded=False)
    run = read()
    if run is None or not waiting.may_poll(request):
        return asked.tell(accepted, heeded=False)
    return waiting.when_ended(
        request,
        run,
        asked,
        ended=lambda: both(read()),
        known=lambda how: both(run) if how is WaitEnd.ENDED else accepted,
    )


def _problem_of_submit_refusal(request: Request, refusal: SubmitRefusal) -> Problem:
    if refusal.balance_micros is not None:
        tell_balance(request, refusal.balance_micros)
    return problems.problem_of_refusal(refusal, asked="run", stands_for="request")


def _said_last(run: Run) -> RunProgress | None:
    try:
        with redis.redis_client().pipeline(transaction=False) as pipeline:
            progress.queue_last(pipeline, run.run_id)
            return progress.last_of(pipeline.execute()[0])
    except RedisError:
        return None


def _run_document_response(
    request: Request, run: Run, money: SeenBalance, *, status: int = 200, said: RunProgress | None = None
) -> HttpResponse:
    found = documents.run_document(run, balance_micros=money.balance_micros, progress=said)
    tell_costs_of(request, run, found.cost)
    return _json_response(found, status=status)


def _json_response(body: BaseModel, *, status: int = 200) -> HttpResponse:
    return HttpResponse(body.model_dump_json(), status=status, content_type="application/json")
