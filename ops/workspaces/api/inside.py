"""Views of what goes on in a workspace: a command and its end, the log of its own command.

Both wait for the workspace's host, on the server's loop: no thread of the API does (dpp_project/http/later.py).
"""

import json
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeVar

from django.http import HttpRequest, HttpResponse
from drf_spectacular.utils import extend_schema
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr
from rest_framework.request import Request

from dpp_project.http import problems
from dpp_project.http.bodies import read_body, read_query
from dpp_project.http.later import AnsweredLater
from dpp_project.http.openapi import cost_headers, openapi_refusals
from dpp_project.http.parameters import query_parameters
from dpp_project.http.path_ids import id_in_path
from dpp_project.http.problems import FieldError, Problem
from dpp_project.http.views import ApiView
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.workspaces import using
from ops.workspaces.api import examples
from ops.workspaces.api.views import TAGS, WorkspaceParser, found_workspace, refuse_workspace_request
from ops.workspaces.drivers.base import DriverRefused, DriverUnavailable, ExecRequest, ExecResult, LogPage
from ops.workspaces.remote import client
from ops.workspaces.specs import ARGUMENTS_MAX, CommandWord, EnvValue, an_argv, of_the_tenant
from tenants.permissions import owner_of
from tenants.rate_limits import Bucket
from tenants.scopes import Scope

EXEC_SECONDS_MAX: Final = 10
EXEC_OUTPUT_MAX: Final = 262_144
STDIN_MAX: Final = 131_072
LOG_BYTES_MAX: Final = 262_144
RETRY_SECONDS: Final = 2
Came = TypeVar("Came")


class ExecBody(BaseModel):
    """A short command; for longer ones there is the pack `command`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    argv: Annotated[
        list[CommandWord],
        Field(min_length=1, max_length=ARGUMENTS_MAX, description="Program and arguments, without a shell."),
        AfterValidator(an_argv),
    ]
    stdin: Annotated[StrictStr, Field(max_length=STDIN_MAX, description="What it reads; then its input ends.")] = ""
    env: Annotated[
        dict[str, EnvValue],
        Field(max_length=64, description="Beside the workspace's own."),
        AfterValidator(of_the_tenant),
    ] = Field(default_factory=dict)
    deadline_sec: Annotated[
        StrictInt, Field(ge=1, le=EXEC_SECONDS_MAX, description="It and all it has started are killed after so long.")
    ] = EXEC_SECONDS_MAX


class ExecAnswer(BaseModel):
    """How it ended. Bytes that are no UTF-8 come as U+FFFD."""

    ended: Annotated[Literal["exited", "deadline", "killed"], Field(description="killed: the workspace was stopped.")]
    exit_code: Annotated[
        int | None, Field(description="As a shell says it, 128 + n for a signal; null: it was killed.")
    ]
    seconds: float
    stdout: str
    stderr: str
    stdout_cut: Annotated[
        bool, Field(description=f"More than {EXEC_OUTPUT_MAX} bytes were written; the rest is dropped.")
    ]
    stderr_cut: bool


class LogQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    offset: Annotated[
        int, Field(ge=0, le=2**53, description="Where to go on: `next_offset` of the page before; 0: what is kept.")
    ] = 0
    limit: Annotated[int, Field(ge=1, le=LOG_BYTES_MAX, description="Bytes at most.")] = 65_536


class LogAnswer(BaseModel):
    """What the workspace's own command has written, stdout and stderr together; a megabyte of it is kept."""

    content: str
    next_offset: int
    dropped: Annotated[bool, Field(description="What stood at `offset` is no longer kept.")]


class ExecView(ApiView):
    required_scopes: Final = Scope.WORKSPACES_WRITE
    rate_bucket: Final = Bucket.SUBMIT
    parser_classes = (WorkspaceParser,)

    @extend_schema(
        operation_id="execInWorkspace",
        summary="Run a short command",
        tags=TAGS,
        request=ExecBody,
        parameters=cost_headers(),
        responses={200: ExecAnswer, **openapi_refusals(ReasonCode.WORKSPACE_WAKING, ReasonCode.CONFLICT)},
        examples=examples.EXEC,
    )
    def post(self, request: Request, workspace_id: str) -> HttpResponse:
        """Ten seconds at most. A workspace that rests is woken: repeat the request after `Retry-After`.

        A command whose answer got lost has run, or has not: it is not begun a second time by us. A client that leaves
        has it killed.
        """
        id_in_path(workspace_id)
        body = read_body(request, ExecBody)
        workspace = found_workspace(request, workspace_id)
        answer = using.awake_workspace(workspace, actor=owner_of(request))
        if isinstance(answer, Refusal):
            refuse_workspace_request(answer)
        if isinstance(answer, using.Asleep):
            raise waking_problem(answer.seconds)
        wanted = ExecRequest(
            exec_id=uuid.uuid4().hex,
            argv=tuple(body.argv),
            stdin=body.stdin.encode(),
            environment=body.env,
            deadline_seconds=float(body.deadline_sec),
            output_bytes_max=EXEC_OUTPUT_MAX,
        )
        run = partial(
            client.run_remote_exec, answer.address or "", answer.workspace_id, wanted, tenant_id=workspace.tenant_id
        )
        return _later_answer_from_inside(
            request, answer.address, run, _exec_answer, asleep=waking_problem(using.WAKING_SECONDS)
        )


class LogsView(ApiView):
    required_scopes: Final = Scope.WORKSPACES_READ
    rate_bucket: Final = Bucket.POLL
    reads_query = frozenset({"GET"})

    @extend_schema(
        operation_id="readWorkspaceLogs",
        summary="What the workspace's command has written",
        tags=TAGS,
        parameters=[*query_parameters(LogQuery), *cost_headers()],
        responses={200: LogAnswer, **openapi_refusals(ReasonCode.CONFLICT)},
        examples=examples.LOGS,
    )
    def get(self, request: Request, workspace_id: str) -> HttpResponse:
        """Of a workspace that runs. To read it is no use of it."""
        query = read_query(request, LogQuery)
        workspace = found_workspace(request, workspace_id)
        address = using.address_of(workspace)
        read = partial(client.read_logs, address or "", str(workspace.pk), offset=query.offset, bytes_max=query.limit)
        asleep = Problem(ReasonCode.CONFLICT, "The workspace has no container; PATCH its desired_state to RUNNING.")
        return _later_answer_from_inside(request, address, read, _log_answer, asleep=asleep)


def waking_problem(seconds: int) -> Problem:
    return Problem(
        ReasonCode.WORKSPACE_WAKING,
        "The workspace rests, and is being woken.",
        headers={"Retry-After": str(seconds)},
    )


def _later_answer_from_inside(
    request: Request,
    address: str | None,
    ask: Callable[[], Awaitable[Came]],
    answer: Callable[[Came], BaseModel],
    *,
    asleep: Problem,
) -> AnsweredLater:
    if address is None:
        raise _away("The host of this workspace has not come up.")

    def render(came: Any) -> HttpResponse:
        if isinstance(came, Exception):
            return problems.problem_response(_plain_request_to_inside(request), _problem_of_driver_error(came, asleep))
        return HttpResponse(json.dumps(answer(came).model_dump(mode="json")), content_type="application/json")

    return AnsweredLater(ask, render)


def _problem_of_driver_error(error: Exception, asleep: Problem) -> Problem:
    if isinstance(error, DriverRefused):
        if error.reason == "NotRunning":
            return asleep
        if error.reason in {"TooManyExecs", "ProcessLimit"}:
            return Problem(ReasonCode.RATE_LIMITED, str(error), headers={"Retry-After": str(RETRY_SECONDS)})
        if error.reason == "BadArgv":
            return Problem(ReasonCode.VALIDATION_FAILED, str(error), errors=[FieldError("argv", str(error))])
        return Problem(ReasonCode.CONFLICT, str(error))
    if isinstance(error, DriverUnavailable):
        return _away(str(error))
    return Problem(ReasonCode.INTERNAL_ERROR, "The request could not be completed.")


def _away(detail: str) -> Problem:
    return Problem(ReasonCode.SERVICE_UNAVAILABLE, detail, headers={"Retry-After": str(RETRY_SECONDS)})


def _exec_answer(result: ExecResult) -> ExecAnswer:
    return ExecAnswer(
        ended=result.end.value,
        exit_code=result.exit_code,
        seconds=round(result.seconds, 3),
        stdout=result.stdout.decode("utf-8", "replace"),
        stderr=result.stderr.decode("utf-8", "replace"),
        stdout_cut=result.stdout_cut,
        stderr_cut=result.stderr_cut,
    )


def _log_answer(page: LogPage) -> LogAnswer:
    return LogAnswer(
        content=page.content.decode("utf-8", "replace"), next_offset=page.next_offset, dropped=page.dropped
    )


def _plain_request_to_inside(request: Request) -> HttpRequest:
    plain: HttpRequest = request._request  # noqa: SLF001  as everywhere
    return plain
