"""Views of /v1/workspaces: they validate and translate; what happens stands in services."""

import json
import re
from functools import partial
from typing import Any, Final, NoReturn

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from dpp_project import clock
from dpp_project.http import idempotency_keys, problems
from dpp_project.http.answered_when import answered_when
from dpp_project.http.asked_to_wait import AskedToWait, WaitQuery, asked_to_wait, headers_of_waiting
from dpp_project.http.bodies import read_body, read_query
from dpp_project.http.cursors import Cursor
from dpp_project.http.handlers import NOT_FOUND_DETAIL
from dpp_project.http.openapi import cost_headers, openapi_refusals
from dpp_project.http.parameters import query_parameters
from dpp_project.http.parsers import StrictJSONParser
from dpp_project.http.path_ids import id_in_path
from dpp_project.http.problems import FieldError, Problem
from dpp_project.http.views import ApiView
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from dpp_project.stores.postgres import DATABASE_AWAY
from dpp_project.waiting.until import WaitEnd
from ops.workspaces import arrivals, explaining, selectors, services
from ops.workspaces.api import examples
from ops.workspaces.api.documents import (
    ArchiveAnswer,
    ArchivesAnswer,
    DeletionQuery,
    EventAnswer,
    TimelineAnswer,
    TimelineQuery,
    WorkspaceAnswer,
    WorkspaceChange,
    WorkspaceRecovery,
    WorkspaceRequest,
    WorkspacesAnswer,
    WorkspacesQuery,
    WorkspaceUndeletion,
)
from ops.workspaces.models import Workspace
from ops.workspaces.selectors import WantedWorkspaces
from tenants.permissions import owner_of, principal_of
from tenants.rate_limits import Bucket
from tenants.scopes import OPERATOR_TENANT_ID, Scope

TAGS: Final = ["Workspaces"]
IF_MATCH: Final = "If-Match"
ARCHIVES_SHOWN: Final = 200
BODY_BYTES_MAX: Final = 262_144
_READ: Final = frozenset({Scope.WORKSPACES_READ, Scope.OPERATOR_READ})
_GENERATION: Final = re.compile(r'"(0|[1-9][0-9]{0,17})"', re.ASCII)
_CHANGED: Final = (ReasonCode.CONFLICT, ReasonCode.WORKSPACE_QUOTA_REACHED)


class WorkspaceParser(StrictJSONParser):
    max_body_bytes = BODY_BYTES_MAX


def _if_match() -> OpenApiParameter:
    return OpenApiParameter(
        IF_MATCH,
        {"type": "string", "pattern": r'^(\*|"[1-9][0-9]{0,8}")$', "maxLength": 20},
        OpenApiParameter.HEADER,
        required=True,
        description="The ETag of the workspace as you have read it; `*`: whatever it is by now.",
        examples=[OpenApiExample("As it was read", value='"3"'), OpenApiExample("Whatever it is", value="*")],
    )


def _answer_headers() -> list[OpenApiParameter]:
    etag = OpenApiParameter("ETag", str, OpenApiParameter.HEADER, description="The generation.", response=True)
    return [etag, *cost_headers()]


class WorkspacesView(ApiView):
    required_scopes: Final = {"GET": _READ, "POST": Scope.WORKSPACES_WRITE}
    rate_bucket: Final = {"GET": Bucket.POLL, "POST": Bucket.SUBMIT}
    parser_classes = (WorkspaceParser,)
    reads_query = frozenset({"GET"})

    @extend_schema(
        operation_id="listWorkspaces",
        summary="Workspaces, newest first",
        tags=TAGS,
        parameters=[*query_parameters(WorkspacesQuery), *cost_headers()],
        responses={200: WorkspacesAnswer},
        examples=examples.LIST,
    )
    def get(self, request: Request) -> Response:
        """A page of a tenant's own workspaces, or for an operator of all."""
        query = read_query(request, WorkspacesQuery)
        wanted = WantedWorkspaces(tenant_id=_whose(request), phase=query.phase, name=query.name, deleted=query.deleted)
        page = selectors.list_workspaces(wanted, after=query.cursor, limit=query.limit)
        answer = WorkspacesAnswer(
            workspaces=_answers(request, page.workspaces),
            next_cursor=None if page.next is None else str(Cursor(*page.next)),
        )
        return Response(answer.model_dump(mode="json"))

    @extend_schema(
        operation_id="createWorkspace",
        summary="Make a workspace",
        tags=TAGS,
        request=WorkspaceRequest,
        parameters=[
            idempotency_keys.idempotency_key_parameter(
                "With it, asking again makes no second workspace.", required=False
            ),
            *_answer_headers(),
        ],
        responses={
            200: WorkspaceAnswer,
            201: WorkspaceAnswer,
            **openapi_refusals(*_CHANGED, ReasonCode.IDEMPOTENCY_CONFLICT),
        },
        examples=examples.CREATE,
    )
    def post(self, request: Request) -> Response:
        """It is PENDING at first, and comes up by itself; `next` says what it waits for.

        Asked again with the same Idempotency-Key it is answered 200, with the workspace as it is by then.
        """
        key = request.headers.get(idempotency_keys.HEADER)
        key = None if key is None else idempotency_keys.read_idempotency_key(key)
        body = read_body(request, WorkspaceRequest)
        answer = services.create_workspace(
            tenant_id=principal_of(request).tenant_id, asked=body.asked(), actor=owner_of(request), idempotency_key=key
        )
        if isinstance(answer, Refusal):
            refuse_workspace_request(answer)
        response = _workspace_response(request, answer.workspace, status=201 if answer.is_new else 200)
        if not answer.is_new:
            response.headers["Idempotent-Replayed"] = "true"
        return response


class WorkspaceView(ApiView):
    required_scopes: Final = {"GET": _READ, "PATCH": Scope.WORKSPACES_WRITE, "DELETE": Scope.WORKSPACES_WRITE}
    rate_bucket: Final = {"GET": Bucket.POLL, "PATCH": Bucket.SUBMIT, "DELETE": Bucket.SUBMIT}
    parser_classes = (WorkspaceParser,)
    reads_query = frozenset({"GET", "DELETE"})

    @extend_schema(
        operation_id="readWorkspace",
        summary="One workspace",
        tags=TAGS,
        parameters=[*query_parameters(WaitQuery), *headers_of_waiting(), *_answer_headers()],
        responses={200: WorkspaceAnswer},
        examples=examples.READ,
    )
    def get(self, request: Request, workspace_id: str) -> HttpResponseBase:
        """As it is asked for, as it was seen last, and what it waits for. To read it is no use of it.

        With `wait` the answer comes as soon as it is as asked for, or nothing is done before its owner acts; or
        after so many seconds, as it is then.
        """
        asked = asked_to_wait(request)
        found = found_workspace(request, workspace_id)
        if asked is None:
            return _workspace_response(request, found)
        if arrivals.has_arrived(found):
            return asked.tell(_workspace_response(request, found), heeded=True)
        return _shown_when_arrived(request, found, asked)

    @extend_schema(
        operation_id="changeWorkspace",
        summary="Start, rest or change a workspace",
        tags=TAGS,
        request=WorkspaceChange,
        parameters=[_if_match(), *_answer_headers()],
        responses={200: WorkspaceAnswer, **openapi_refusals(*_CHANGED, ReasonCode.PRECONDITION_FAILED)},
        examples=examples.CHANGE,
    )
    def patch(self, request: Request, workspace_id: str) -> Response:
        """What is asked for is written down; the workspace comes there step by step.

        RUNNING, STANDBY (the home alone) and ARCHIVED (its archive alone) can be asked for. A running workspace is
        restarted with a changed spec.
        """
        wanted_id = id_in_path(workspace_id)
        body = read_body(request, WorkspaceChange)
        generation = _generation(request)
        answer = services.change_workspace(
            workspace_id=wanted_id,
            actor=owner_of(request),
            wanted=body.wanted(),
            tenant_id=principal_of(request).tenant_id,
            generation=generation,
        )
        return _workspace_response(request, _workspace_unless_refused(answer))

    @extend_schema(
        operation_id="deleteWorkspace",
        summary="Delete a workspace",
        tags=TAGS,
        parameters=[*query_parameters(DeletionQuery), *_answer_headers()],
        responses={202: WorkspaceAnswer, **openapi_refusals(ReasonCode.CONFLICT)},
        examples=examples.DELETE,
    )
    def delete(self, request: Request, workspace_id: str) -> Response:
        """It steps down and is archived first; for seven days it can be undeleted. Asking again changes nothing.

        One in ERROR cannot be archived: it is deleted with `discard=true`, and what was not archived is lost.
        """
        wanted_id = id_in_path(workspace_id)
        query = read_query(request, DeletionQuery)
        answer = services.delete_workspace(
            workspace_id=wanted_id,
            actor=owner_of(request),
            discard=query.discard,
            tenant_id=principal_of(request).tenant_id,
        )
        return _workspace_response(request, _workspace_unless_refused(answer), status=202)


class UndeleteView(ApiView):
    required_scopes: Final = Scope.WORKSPACES_WRITE
    rate_bucket: Final = Bucket.SUBMIT
    parser_classes = (WorkspaceParser,)

    @extend_schema(
        operation_id="undeleteWorkspace",
        summary="Take a deletion back",
        tags=TAGS,
        request=WorkspaceUndeletion,
        parameters=_answer_headers(),
        responses={200: WorkspaceAnswer, **openapi_refusals(*_CHANGED)},
        examples=examples.UNDELETE,
    )
    def post(self, request: Request, workspace_id: str) -> Response:
        """Within seven days. It comes back from its archive, or as it stands where it is not archived yet."""
        wanted_id = id_in_path(workspace_id)
        body = read_body(request, WorkspaceUndeletion)
        answer = services.undelete_workspace(
            workspace_id=wanted_id,
            actor=owner_of(request),
            desired_state=body.desired_state,
            name=body.name,
            tenant_id=principal_of(request).tenant_id,
        )
        return _workspace_response(request, _workspace_unless_refused(answer))


class WorkspaceRecoverView(ApiView):
    required_scopes: Final = Scope.WORKSPACES_WRITE
    rate_bucket: Final = Bucket.SUBMIT
    parser_classes = (WorkspaceParser,)

    @extend_schema(
        operation_id="recoverWorkspace",
        summary="Bring a workspace out of ERROR",
        tags=TAGS,
        request=WorkspaceRecovery,
        parameters=_answer_headers(),
        responses={202: WorkspaceAnswer, **openapi_refusals(ReasonCode.CONFLICT)},
        examples=examples.RECOVER,
    )
    def post(self, request: Request, workspace_id: str) -> Response:
        """Say from what. It is taken up within seconds; the timeline says what came of it."""
        wanted_id = id_in_path(workspace_id)
        body = read_body(request, WorkspaceRecovery)
        answer = services.recover_workspace(
            workspace_id=wanted_id,
            actor=owner_of(request),
            source=body.source,
            tenant_id=principal_of(request).tenant_id,
        )
        return _workspace_response(request, _workspace_unless_refused(answer), status=202)


class ArchivesView(ApiView):
    required_scopes: Final = _READ
    rate_bucket: Final = Bucket.POLL

    @extend_schema(
        operation_id="listWorkspaceArchives",
        summary="Archives of a workspace",
        tags=TAGS,
        parameters=cost_headers(),
        responses={200: ArchivesAnswer},
        examples=examples.ARCHIVES,
    )
    def get(self, request: Request, workspace_id: str) -> Response:
        """Those that are kept. Of several verified ones the newest is restored."""
        found = selectors.archives_of(found_workspace(request, workspace_id), limit=ARCHIVES_SHOWN)
        answer = ArchivesAnswer(archives=[ArchiveAnswer.of(one) for one in found])
        return Response(answer.model_dump(mode="json"))


class TimelineView(ApiView):
    required_scopes: Final = _READ
    rate_bucket: Final = Bucket.POLL
    reads_query = frozenset({"GET"})

    @extend_schema(
        operation_id="listWorkspaceEvents",
        summary="Timeline of a workspace, newest first",
        tags=TAGS,
        parameters=[*query_parameters(TimelineQuery), *cost_headers()],
        responses={200: TimelineAnswer},
        examples=examples.EVENTS,
    )
    def get(self, request: Request, workspace_id: str) -> Response:
        """What was asked, begun, done, observed and refused."""
        query = read_query(request, TimelineQuery)
        page = selectors.events_of(found_workspace(request, workspace_id), below=query.cursor, limit=query.limit)
        for_operator = _whose(request) is None
        answer = TimelineAnswer(
            events=[EventAnswer.of(one, for_operator=for_operator) for one in page.events], next_cursor=page.next
        )
        return Response(answer.model_dump(mode="json"))


def _whose(request: Request) -> str | None:
    """None: an operator's key, which sees every tenant's."""
    tenant_id: str = principal_of(request).tenant_id
    return None if tenant_id == OPERATOR_TENANT_ID else tenant_id


def _generation(request: Request) -> int | None:
    """None: any."""
    said = (request.headers.get(IF_MATCH) or "").strip()
    if said == "*":
        return None
    if (found := _GENERATION.fullmatch(said)) is None:
        raise Problem(
            ReasonCode.VALIDATION_FAILED,
            f"The {IF_MATCH} header is missing or has the wrong form.",
            errors=[FieldError(f"header.{IF_MATCH}", 'send the ETag as it was given, such as "3", or *')],
        )
    return int(found[1])


def found_workspace(request: Request, workspace_id: str) -> Workspace:
    found = selectors.workspace_of(_whose(request), id_in_path(workspace_id))
    if found is None:
        raise Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
    return found


def _answers(request: Request, workspaces: list[Workspace]) -> list[WorkspaceAnswer]:
    drivers = {driver.driver_id: driver for driver in selectors.list_drivers()} if workspaces else {}
    shows_values = Scope.WORKSPACES_WRITE in principal_of(request).scopes
    now = clock.now()
    return [
        WorkspaceAnswer.of(
            one,
            explaining.explain_workspace(one, drivers.get(one.driver_id or ""), now=now),
            for_operator=_whose(request) is None,
            shows_values=shows_values,
        )
        for one in workspaces
    ]


def _workspace_response(request: Request, workspace: Workspace, *, status: int = 200) -> Response:
    document: Any = _answers(request, [workspace])[0].model_dump(mode="json")
    return Response(document, status=status, headers={"ETag": f'"{workspace.generation}"'})


def _shown_when_arrived(request: Request, seen: Workspace, asked: AskedToWait) -> HttpResponse:
    """Read anew at the end of the wait, too: it has made steps meanwhile."""
    before = _rendered_workspace_response(request, seen)

    def now() -> HttpResponse:
        return _rendered_workspace_response(request, found_workspace(request, str(seen.workspace_id)))

    def known(how: WaitEnd) -> HttpResponse:
        try:
            return now() if how is WaitEnd.TIME_OVER else before
        except DATABASE_AWAY:
            return before

    wait = partial(
        arrivals.until_arrived,
        workspace_id=seen.workspace_id,
        tenant_id=principal_of(request).tenant_id,
        key_id=principal_of(request).key_id,
        seconds=asked.seconds,
    )
    return answered_when(request._request, asked, wait, ended=now, known=known)  # noqa: SLF001  DRF has no public way


def _rendered_workspace_response(request: Request, workspace: Workspace) -> HttpResponse:
    """Outside of the view, where nothing renders a Response."""
    shown = _workspace_response(request, workspace)
    return HttpResponse(
        json.dumps(shown.data, ensure_ascii=False),
        content_type="application/json",
        headers={"ETag": shown.headers["ETag"]},
    )


def _workspace_unless_refused(answer: Workspace | Refusal) -> Workspace:
    if isinstance(answer, Refusal):
        refuse_workspace_request(answer)
    return answer


def refuse_workspace_request(refusal: Refusal) -> NoReturn:
    """Another tenant's workspace and one that never was have the same answer."""
    if refusal.reason is ReasonCode.NOT_FOUND:
        raise Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
    raise problems.problem_of_refusal(refusal, asked="workspace", stands_for="workspace")
