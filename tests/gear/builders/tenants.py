"""Tenants and keys for tests, made by the services that make them in earnest."""

import secrets
from collections.abc import Iterable
from datetime import datetime

from tenants import services
from tenants.models import Tenant
from tenants.scopes import OPERATOR_SCOPES, OPERATOR_TENANT_ID, TENANT_SCOPES, Scope
from tenants.services import IssuedKey


def a_tenant(*, poll_rate_per_minute: int = 60, submit_rate_per_minute: int = 60) -> Tenant:
    tenant = services.create_tenant(
        tenant_id=f"t_x{secrets.token_hex(6)}",
        display_name="A tenant",
        poll_rate_per_minute=poll_rate_per_minute,
        submit_rate_per_minute=submit_rate_per_minute,
        actor="test",
    )
    assert isinstance(tenant, Tenant)
    return tenant


def a_key(
    tenant: Tenant | None = None, *, scopes: Iterable[Scope] = TENANT_SCOPES, expires_at: datetime | None = None
) -> IssuedKey:
    tenant = tenant or a_tenant()
    issued = services.issue_key(tenant_id=tenant.tenant_id, scopes=scopes, expires_at=expires_at, actor="test")
    assert isinstance(issued, IssuedKey)
    return issued


def an_operator_key(*, scopes: Iterable[Scope] = OPERATOR_SCOPES) -> IssuedKey:
    """The reserved tenant comes with the migrations; tests that truncate the tables take it away."""
    tenant, _ = Tenant.objects.get_or_create(tenant_id=OPERATOR_TENANT_ID, defaults={"display_name": "Operator"})
    return a_key(tenant, scopes=scopes)


def bearer(issued: IssuedKey) -> dict[str, str]:
    """The headers of a request made with this key."""
    return {"Authorization": f"Bearer {issued.plaintext}"}
