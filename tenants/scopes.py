"""Scopes. A key has scopes of one family only: the tenant's or the operator's.

Tenant scopes say what a tenant may do with its own runs, money and files. Operator scopes belong to the reserved tenant
`t_operator`, whose keys operate the platform and own nothing: an operator key cannot submit a run, a tenant key cannot
call an operator's address. Constraints hold both rules (see `ApiKey.Meta.constraints`), so a new scope is a migration.
"""

from enum import StrEnum
from typing import Final

OPERATOR_TENANT_ID: Final = "t_operator"


class Scope(StrEnum):
    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    BUDGET_READ = "budget:read"
    UPLOADS_WRITE = "uploads:write"
    ERRORS_WRITE = "errors:write"
    WEBHOOKS_WRITE = "webhooks:write"
    KEYS_WRITE = "keys:write"
    WORKSPACES_READ = "workspaces:read"
    WORKSPACES_WRITE = "workspaces:write"
    OPERATOR_READ = "operator:read"
    OPERATOR_WRITE = "operator:write"


OPERATOR_SCOPES: Final = frozenset({Scope.OPERATOR_READ, Scope.OPERATOR_WRITE})
TENANT_SCOPES: Final = frozenset(Scope) - OPERATOR_SCOPES


def allowed_for(tenant_id: str) -> frozenset[Scope]:
    """The scopes that keys of this tenant may carry."""
    return OPERATOR_SCOPES if tenant_id == OPERATOR_TENANT_ID else TENANT_SCOPES
