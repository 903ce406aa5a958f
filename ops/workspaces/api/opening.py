"""A link that opens a port of a workspace in a browser."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from drf_spectacular.utils import extend_schema
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictInt
from rest_framework.request import Request
from rest_framework.response import Response

from dpp_project import clock
from dpp_project.http.bodies import read_body
from dpp_project.http.openapi import cost_headers, openapi_refusals
from dpp_project.http.path_ids import id_in_path
from dpp_project.http.problems import FieldError, Problem
from dpp_project.http.views import ApiView
from dpp_project.reasons import ReasonCode
from ops.workspaces.api import examples
from ops.workspaces.api.views import TAGS, WorkspaceParser, found_workspace
from ops.workspaces.proxy import links
from ops.workspaces.proxy.links import Door, LinkPass
from ops.workspaces.specs import Port
from tenants.permissions import principal_of
from tenants.rate_limits import Bucket
from tenants.scopes import Scope

SECONDS_USUAL: Final = 900


class LinkRequest(BaseModel):
    """For a link that lets its holder in: to this port, until it ends."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    port: Annotated[Port, Field(description="One of the workspace's `spec.ports`.", examples=[8080])]
    expires_sec: Annotated[
        StrictInt,
        Field(ge=60, le=links.SECONDS_MAX, description="The link ends after so long, and with it what it opened."),
    ] = SECONDS_USUAL


class LinkAnswer(BaseModel):
    url: Annotated[str, Field(description="To be opened in a browser. A secret, as long as it holds.")]
    expires_at: AwareDatetime


class LinksView(ApiView):
    required_scopes: Final = Scope.WORKSPACES_WRITE
    rate_bucket: Final = Bucket.SUBMIT
    parser_classes = (WorkspaceParser,)

    @extend_schema(
        operation_id="linkToWorkspace",
        summary="Open a port in a browser",
        tags=TAGS,
        request=LinkRequest,
        parameters=cost_headers(),
        responses={201: LinkAnswer, **openapi_refusals(ReasonCode.CONFLICT)},
        examples=examples.LINK,
    )
    def post(self, request: Request, workspace_id: str) -> Response:
        """It signs the browser in to this port, and ends early with the key that asked for it. To make it is no use.

        A workspace that rests is woken when the link is opened.
        """
        id_in_path(workspace_id)
        body = read_body(request, LinkRequest)
        workspace = found_workspace(request, workspace_id)
        if body.port not in (workspace.spec.get("ports") or ()):
            said = "The port is none of the workspace's spec.ports; PATCH them first."
            raise Problem(ReasonCode.VALIDATION_FAILED, said, errors=[FieldError("port", "is not in spec.ports")])
        expires = int((clock.now() + timedelta(seconds=body.expires_sec)).timestamp())
        granted = LinkPass(principal_of(request).prefix, expires)
        url = links.proxy_link(Door(workspace.pk, body.port), granted)
        if url is None:
            raise Problem(ReasonCode.CONFLICT, "Workspaces have no address for browsers here; send a key instead.")
        answer = LinkAnswer(url=url, expires_at=datetime.fromtimestamp(expires, UTC))
        return Response(answer.model_dump(mode="json"), status=201, headers={"Cache-Control": "no-store"})
