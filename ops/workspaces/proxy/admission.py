"""Whether a caller may reach a workspace's port, and the workspace is there: asked in a thread, before anything else.

First who calls, then what is asked for: without a key or a cookie that holds nothing is looked up, and nothing woken.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.db import connections
from django.db.models import Q
from django.db.models.functions import Now

from dpp_project import actors, origins
from dpp_project.http import problems
from dpp_project.http.problems import Problem
from dpp_project.refusals import Refusal
from dpp_project.stores.postgres import DATABASE_AWAY
from ops.workspaces import selectors, using
from ops.workspaces.models import Workspace
from ops.workspaces.proxy import links
from ops.workspaces.proxy.answers import NotPassedOn, ProxyAnswer, proxy_refusal
from ops.workspaces.proxy.heads import Head
from ops.workspaces.proxy.links import LinkPass
from ops.workspaces.proxy.staying import Admitted, unproven_refusal
from tenants import authentication
from tenants.models import ApiKey, Tenant
from tenants.scopes import Scope

AWAY_SECONDS: Final = 2
_NO_CALLER: Final = (
    "Send `Authorization: Bearer dpp_...`, or open a link of POST /v1/workspaces/{id}/links in a browser."
)
_NOT_FOUND: Final = "There is no such workspace of yours."


def admit_request(head: Head, peer: str, *, driver_id: str) -> Admitted:
    """The workspace runs, and its owner calls. Raises NotPassedOn."""
    try:
        with _database_freed_by_admission(), origins.use_origin(origins.API, peer):
            admitted, prefix = _caller(head)
            workspace = selectors.workspace_of(admitted.tenant_id, head.door.workspace_id)
            if workspace is None:
                raise proxy_refusal(404, _NOT_FOUND)
            _refuse_unreachable(workspace, head, driver_id)
            _wake(workspace, actors.owner_actor(prefix))
            return admitted
    except Problem as problem:
        raise _proxy_refusal_of_problem(problem) from None
    except DATABASE_AWAY:
        raise proxy_refusal(503, "The platform's database does not answer.", retry_seconds=AWAY_SECONDS) from None


def _caller(head: Head) -> tuple[Admitted, str]:
    """Who it is, and the prefix of the key. A page's own Authorization header is no reason to turn its cookie away."""
    if links.is_at_home(head.door.workspace_id, head.host):
        for token in head.tokens:
            granted = links.of_cookie(head.door, token)
            admitted = None if granted is None else _admitted_by(granted)
            if granted is not None and admitted is not None:
                if head.is_from_elsewhere:
                    raise proxy_refusal(403, "Another site's page asks for this in your name; that is not passed on.")
                return admitted, granted.key_prefix
    if head.authorization is None:
        raise unproven_refusal(_NO_CALLER)
    principal = authentication.authenticate_header(head.authorization)
    if Scope.WORKSPACES_WRITE not in principal.scopes:
        raise proxy_refusal(403, f"This needs the scope `workspaces:write`, which key dpp_{principal.prefix} lacks.")
    return Admitted(principal.tenant_id, principal.key_id), principal.prefix


def _admitted_by(granted: LinkPass) -> Admitted | None:
    """None: the key that made the link has ended, its tenant is suspended, or its scope is gone."""
    found = ApiKey.objects.filter(
        Q(expires_at__isnull=True) | Q(expires_at__gt=Now()),
        prefix=granted.key_prefix,
        status=ApiKey.Status.ACTIVE,
        tenant__status=Tenant.Status.ACTIVE,
        scopes__contains=[Scope.WORKSPACES_WRITE.value],
    )
    key = found.values_list("tenant_id", "key_id").first()
    return None if key is None else Admitted(*key, until=granted.expires)


def _refuse_unreachable(workspace: Workspace, head: Head, driver_id: str) -> None:
    if workspace.driver_id is not None and workspace.driver_id != driver_id:
        raise proxy_refusal(
            421, f"This workspace is held elsewhere, by {workspace.driver_id}; its own host answers for it."
        )
    if head.door.port not in (workspace.spec.get("ports") or ()):
        raise proxy_refusal(404, f"Port {head.door.port} is not in the workspace's spec.ports; PATCH them to reach it.")


def _wake(workspace: Workspace, actor: str) -> None:
    """It is used when bytes have come through, and not by being asked for in vain."""
    answer = using.awake_workspace(workspace, actor=actor, is_used=False)
    if isinstance(answer, Refusal):
        raise _proxy_refusal_of_problem(problems.problem_of_refusal(answer, asked="workspace", stands_for="workspace"))
    if isinstance(answer, using.Asleep):
        raise NotPassedOn(ProxyAnswer(503, "The workspace rests, and is being woken.", answer.seconds, waits=True))


def _proxy_refusal_of_problem(problem: Problem) -> NotPassedOn:
    headers = {name.lower(): value for name, value in problem.headers.items()}
    retry, challenge = headers.get("retry-after"), headers.get("www-authenticate")
    own = [] if challenge is None else [(b"www-authenticate", challenge.encode("ascii"))]
    return NotPassedOn(ProxyAnswer(problem.status, problem.detail, None if retry is None else int(retry), own))


@contextmanager
def _database_freed_by_admission() -> Iterator[None]:
    try:
        yield
    finally:
        connections.close_all()
