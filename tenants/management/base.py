"""What the commands of this app share."""

from typing import Any, Final

from tenants.models import ApiKey, Tenant
from tenants.services import IssuedKey

SHOWN_ONCE: Final = "This is the whole key. It is shown only once; store it now."


def tenant_document(tenant: Tenant) -> dict[str, Any]:
    return {
        "tenant_id": tenant.tenant_id,
        "display_name": tenant.display_name,
        "status": tenant.status,
        "poll_rate_per_minute": tenant.poll_rate_per_minute,
        "submit_rate_per_minute": tenant.submit_rate_per_minute,
        "zone": tenant.zone,
    }


def key_document(key: ApiKey) -> dict[str, Any]:
    return {
        "key_id": str(key.key_id),
        "prefix": f"dpp_{key.prefix}",
        "tenant_id": key.tenant_id,
        "label": key.label,
        "scopes": list(key.scopes),
        "status": key.status,
        "expires_at": key.expires_at and key.expires_at.isoformat(),
        "last_used_at": key.last_used_at and key.last_used_at.isoformat(),
    }


def issued_document(issued: IssuedKey, *, dry_run: bool) -> dict[str, Any]:
    """The key's document with the plaintext under `key`; a dry run discards its key and does not show it."""
    return key_document(issued.key) | {"key": None if dry_run else issued.plaintext}


def issued_lines(issued: IssuedKey, *, dry_run: bool) -> list[str]:
    return [] if dry_run else [issued.plaintext]
