"""Scopes that a view requires. A view that declares none is refused."""

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import structlog
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from dpp_project import actors
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode
from tenants import authentication
from tenants.principals import Principal, RefusedKey
from tenants.scopes import Scope

if TYPE_CHECKING:  # rest_framework.views imports this module while it is itself being imported
    from rest_framework.views import APIView

log = structlog.get_logger("dpp.tenants")


class Access(Enum):
    ANY_KEY = "any valid key"


ANY_KEY: Final = Access.ANY_KEY
PUBLIC: Final = None
Requirement = Scope | frozenset[Scope] | Access | None
_UNDECLARED: Final = object()


class HasScope(BasePermission):
    """Asks the view for `required_scopes`: one requirement, or one for each method it handles.

    A requirement is a Scope, a set of which one will do, ANY_KEY, or PUBLIC. It is checked before anything is looked
    up, so a tenant's key learns nothing from an operator's address, not even whether an id exists. A method the view
    does not handle needs a valid key, and then gets its 405.
    """

    def has_permission(self, request: Request, view: "APIView") -> bool:
        requirement = requirement_of(view, request.method or "")
        if requirement is _UNDECLARED:
            log.error("view declares no scope", view=type(view).__qualname__, method=request.method)
            raise Problem(ReasonCode.SCOPE_MISSING, "This address declares no scope, so no key may use it.")
        if requirement is PUBLIC:
            return True
        principal = principal_of(request)
        enough = frozenset({requirement}) if isinstance(requirement, Scope) else requirement
        if isinstance(enough, frozenset) and enough.isdisjoint(principal.scopes):
            named = " or ".join(f"`{scope.value}`" for scope in sorted(enough))
            raise Problem(
                ReasonCode.SCOPE_MISSING,
                f"This operation needs the scope {named}, which key dpp_{principal.prefix} lacks.",
            )
        return True


def requirement_of(view: "APIView | type[APIView]", method: str) -> Any:
    """The view's requirement for this method, and whether the view declares one (`is_declared`)."""
    declared: Any = getattr(view, "required_scopes", _UNDECLARED)
    if not isinstance(declared, Mapping):
        return declared
    if method == "HEAD" and "HEAD" not in declared:
        method = "GET"
    if method in declared:
        return declared[method]
    is_handled = method != "OPTIONS" and hasattr(view, method.lower())
    return _UNDECLARED if is_handled else ANY_KEY


def is_declared(view: "APIView | type[APIView]", method: str) -> bool:
    return requirement_of(view, method) is not _UNDECLARED


def principal_of(request: Request) -> Principal:
    """The authenticated caller. Raises 401 without one: only a PUBLIC view is reached without a key."""
    principal: Any = request.user
    if not isinstance(principal, Principal):
        authentication.refuse_key(RefusedKey.MISSING)
    return principal


def owner_of(request: Request) -> str:
    """Who asks, as the audit trail names a tenant's own key."""
    return actors.owner_actor(principal_of(request).prefix)
