"""/api/auth-errors. Views validate and translate; what happens stands in recording, deciding, bulk and clusters.

An operator's key reads all, a tenant's its own reports and nothing of clusters or of who decided: a cluster is shared,
and would show one tenant another's traces.
"""

import uuid
from typing import Any, Final

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from dpp_project import actors, clock
from dpp_project.http import problems
from dpp_project.http.bodies import read_body, read_query
from dpp_project.http.cursors import Cursor
from dpp_project.http.handlers import NOT_FOUND_DETAIL
from dpp_project.http.openapi import openapi_refusals
from dpp_project.http.parameters import query_parameters
from dpp_project.http.parsers import MAX_REPORT_BYTES, StrictJSONParser
from dpp_project.http.path_ids import id_in_path
from dpp_project.http.problems import FieldError, Problem
from dpp_project.http.views import ApiView
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.auth_errors import bulk, clusters, deciding, reads, recording
from ops.auth_errors.api import examples
from ops.auth_errors.api.documents import (
    AuthErrorAnswer,
    AuthErrorReport,
    AuthErrors,
    AuthErrorsQuery,
    ClusterAnswer,
    ClusterDecisionAnswer,
    Clusters,
    ClustersQuery,
    DecisionRequest,
    MergeRequest,
    RecordedAnswer,
)
from ops.auth_errors.reads import Wanted
from ops.auth_errors.reports.cleaning import BlankField
from tenants.permissions import principal_of
from tenants.rate_limits import Bucket
from tenants.scopes import OPERATOR_TENANT_ID, Scope

_READ: Final = frozenset({Scope.ERRORS_WRITE, Scope.OPERATOR_READ})


class ReportParser(StrictJSONParser):
    """What Postgres cannot hold is removed from a report, not refused: a trace may hold anything."""

    max_body_bytes = MAX_REPORT_BYTES
    refuses_unstorable = False


class DecisionParser(StrictJSONParser):
    max_body_bytes = MAX_REPORT_BYTES


class AuthErrorsView(ApiView):
    required_scopes: Final = {"GET": _READ, "POST": Scope.ERRORS_WRITE}
    rate_bucket: Final = {"GET": Bucket.POLL, "POST": Bucket.REPORT}
    parser_classes = (ReportParser,)
    reads_query = frozenset({"GET"})

    @extend_schema(
        operation_id="listAuthErrors",
        summary="Auth errors, newest first",
        tags=["Auth errors"],
        parameters=query_parameters(AuthErrorsQuery),
        responses={200: AuthErrors},
        examples=examples.PAGE,
    )
    def get(self, request: Request) -> Response:
        """A page of reports: a tenant's own, or for an operator all. The filter by cluster is for operators."""
        query = read_query(request, AuthErrorsQuery)
        tenant_id = _whose(request)
        if query.cluster is not None and tenant_id is not None:
            raise Problem(ReasonCode.SCOPE_MISSING, "The filter `cluster` needs the scope `operator:read`.")
        page = reads.error_page(
            Wanted(
                tenant_id=tenant_id,
                status=query.status,
                cluster_id=query.cluster,
                exception_class=query.exception_class,
                since=query.since,
                below=None if query.cursor is None else query.cursor.id,
            ),
            limit=query.limit,
        )
        answer = AuthErrors(
            auth_errors=[AuthErrorAnswer.in_a_list(error, for_operator=tenant_id is None) for error in page.errors],
            next_cursor=None if page.next is None else str(Cursor(page.errors[-1].recorded_at, page.next)),
        )
        return Response(answer.model_dump(mode="json"))

    @extend_schema(
        operation_id="reportAuthError",
        summary="Report an authentication error",
        tags=["Auth errors"],
        request=AuthErrorReport,
        responses={200: RecordedAnswer, 201: RecordedAnswer},
        examples=[*examples.REPORT, *examples.RECORDED],
    )
    def post(self, request: Request) -> Response:
        """Record an error of your own sign-ins. It is analysed within a second and grouped with those of its kind.

        Texts are masked before they are stored. The same `requestId` again is answered 200 with the first report,
        whatever else the body says.
        """
        body = read_body(request, AuthErrorReport)
        try:
            report = recording.cleaned_report(body.texts(), occurred_at=body.occurredAt, http_status=body.httpStatus)
        except BlankField as blank:
            raise Problem(
                ReasonCode.VALIDATION_FAILED,
                "The report is refused; see errors.",
                errors=[FieldError(blank.field, "must not be blank")],
            ) from None
        recorded = recording.record_auth_error(tenant_id=principal_of(request).tenant_id, report=report)
        answer = RecordedAnswer(
            auth_error_id=str(recorded.auth_error_id), status=recorded.status, recorded_at=recorded.recorded_at
        )
        return Response(
            answer.model_dump(mode="json"),
            status=201 if recorded.is_new else 200,
            headers={} if recorded.is_new else {"Idempotent-Replayed": "true"},
        )


class AuthErrorView(ApiView):
    required_scopes: Final = _READ
    rate_bucket: Final = Bucket.POLL

    @extend_schema(
        operation_id="readAuthError",
        summary="One auth error",
        tags=["Auth errors"],
        responses={200: AuthErrorAnswer},
        examples=examples.ONE,
    )
    def get(self, request: Request, auth_error_id: str) -> Response:
        """The report as it is kept, and every event of its life."""
        tenant_id = _whose(request)
        found = reads.error_of(id_in_path(auth_error_id), tenant_id=tenant_id)
        if found is None:
            raise Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
        answer = AuthErrorAnswer.whole(found, for_operator=tenant_id is None)
        return Response(answer.model_dump(mode="json"))


class DecisionsView(ApiView):
    required_scopes: Final = {"POST": Scope.OPERATOR_WRITE}
    rate_bucket: Final = Bucket.SUBMIT
    parser_classes = (DecisionParser,)

    @extend_schema(
        operation_id="decideAuthError",
        summary="Decide about an auth error",
        tags=["Auth errors"],
        request=DecisionRequest,
        responses={200: AuthErrorAnswer, **openapi_refusals(ReasonCode.CONFLICT)},
        examples=[*examples.DECISION, *examples.ONE],
    )
    def post(self, request: Request, auth_error_id: str) -> Response:
        """RESOLVE, IGNORE, FAIL or PROCESS ends it, RETRY has it analysed again. The same again changes nothing.

        Before its analysis, and once it has ended otherwise, it is refused 409.
        """
        error_id = id_in_path(auth_error_id)
        body = read_body(request, DecisionRequest)
        decided = deciding.decide_auth_error(
            auth_error_id=error_id, decision=body.decision, by=_actor(request), reason=body.reason
        )
        if isinstance(decided, Refusal):
            raise _auth_error_problem(decided, asked="decision")
        return Response(AuthErrorAnswer.whole(decided.error, for_operator=True).model_dump(mode="json"))


class ClustersView(ApiView):
    required_scopes: Final = Scope.OPERATOR_READ
    rate_bucket: Final = Bucket.POLL
    reads_query = frozenset({"GET"})

    @extend_schema(
        operation_id="listAuthErrorClusters",
        summary="Clusters of auth errors",
        tags=["Auth errors"],
        parameters=query_parameters(ClustersQuery),
        responses={200: Clusters},
        examples=examples.CLUSTERS,
    )
    def get(self, request: Request) -> Response:
        """Faults, the one that was seen last first, with what is merged into each."""
        query = read_query(request, ClustersQuery)
        page = reads.cluster_page(status=query.status, after=query.cursor, today=clock.now().date(), limit=query.limit)
        answer = Clusters(
            clusters=[ClusterAnswer.of(one) for one in page.clusters],
            next_cursor=None if page.next is None else str(Cursor(*page.next)),
        )
        return Response(answer.model_dump(mode="json"))


class ClusterView(ApiView):
    required_scopes: Final = Scope.OPERATOR_READ
    rate_bucket: Final = Bucket.POLL

    @extend_schema(
        operation_id="readAuthErrorCluster",
        summary="One cluster",
        tags=["Auth errors"],
        responses={200: ClusterAnswer},
        examples=examples.CLUSTER,
    )
    def get(self, request: Request, cluster_id: str) -> Response:
        """A fault, and how often it was met on each of the last 14 days."""
        del request
        return _cluster(id_in_path(cluster_id))


class ClusterDecisionsView(ApiView):
    required_scopes: Final = {"POST": Scope.OPERATOR_WRITE}
    rate_bucket: Final = Bucket.SUBMIT
    parser_classes = (DecisionParser,)

    @extend_schema(
        operation_id="decideAuthErrorCluster",
        summary="Decide about all open errors of a cluster",
        tags=["Auth errors"],
        request=DecisionRequest,
        responses={200: ClusterDecisionAnswer, **openapi_refusals(ReasonCode.CONFLICT)},
        examples=[*examples.DECISION, *examples.CLUSTER_DECISION],
    )
    def post(self, request: Request, cluster_id: str) -> Response:
        """About each error of it that was recorded by now and is not decided. The first 500 at once, the others
        within minutes: `finished` says whether that was all. RESOLVE also marks the cluster, until an error comes back.
        """
        found = id_in_path(cluster_id)
        body = read_body(request, DecisionRequest)
        decided = bulk.decide_cluster(cluster_id=found, decision=body.decision, by=_actor(request), reason=body.reason)
        if isinstance(decided, Refusal):
            raise _auth_error_problem(decided, asked="decision")
        return Response(ClusterDecisionAnswer.of(decided.decision).model_dump(mode="json"))


class MergeView(ApiView):
    required_scopes: Final = {"POST": Scope.OPERATOR_WRITE}
    rate_bucket: Final = Bucket.SUBMIT
    parser_classes = (DecisionParser,)

    @extend_schema(
        operation_id="mergeAuthErrorCluster",
        summary="Count a cluster as another",
        tags=["Auth errors"],
        request=MergeRequest,
        responses={200: ClusterAnswer, **openapi_refusals(ReasonCode.CONFLICT)},
        examples=[*examples.MERGE, *examples.CLUSTER],
    )
    def post(self, request: Request, cluster_id: str) -> Response:
        """Its errors, those to come too, count as those of `into`. A circle is refused 409."""
        found = id_in_path(cluster_id)
        body = read_body(request, MergeRequest)
        merged = clusters.merge_clusters(source_id=found, into_id=body.into, by=_actor(request))
        if isinstance(merged, Refusal):
            raise _auth_error_problem(merged, asked="merge")
        return _cluster(found)


class UnmergeView(ApiView):
    required_scopes: Final = {"POST": Scope.OPERATOR_WRITE}
    rate_bucket: Final = Bucket.SUBMIT
    parser_classes = (DecisionParser,)

    @extend_schema(
        operation_id="unmergeAuthErrorCluster",
        summary="Let a cluster stand for itself again",
        tags=["Auth errors"],
        request=None,
        responses={200: ClusterAnswer, **openapi_refusals(ReasonCode.CONFLICT)},
        examples=examples.CLUSTER,
    )
    def post(self, request: Request, cluster_id: str) -> Response:
        """With each error of its own, those of the meantime too. One that is not merged is refused 409."""
        found = id_in_path(cluster_id)
        ended = clusters.unmerge_cluster(cluster_id=found, by=_actor(request))
        if isinstance(ended, Refusal):
            raise _auth_error_problem(ended, asked="unmerge")
        return _cluster(found)


def _whose(request: Request) -> str | None:
    """None: an operator's key, which sees every tenant's."""
    tenant_id: str = principal_of(request).tenant_id
    return None if tenant_id == OPERATOR_TENANT_ID else tenant_id


def _actor(request: Request) -> str:
    return actors.key_actor(principal_of(request).prefix)


def _cluster(cluster_id: uuid.UUID) -> Response:
    summary = reads.summary_of(cluster_id, today=clock.now().date())
    if summary is None:
        raise Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
    answer: Any = ClusterAnswer.of(summary).model_dump(mode="json")
    return Response(answer)


def _auth_error_problem(refusal: Refusal, *, asked: str) -> Problem:
    if refusal.reason is ReasonCode.NOT_FOUND:
        return Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
    return problems.problem_of_refusal(refusal, asked=asked, stands_for=asked)
