"""What is tried out with: a demo tenant with funds and a key, an operator's key, an admin user. Not for production."""

from collections.abc import Mapping
from typing import TypeVar

from django.contrib.auth import get_user_model
from django.db.models import Q

from budget import entries
from budget.rebuild.gate_watch import watch_gates
from dpp_project import clock
from dpp_project.refusals import Refusal
from tenants import keys, services
from tenants.models import ApiKey, Tenant
from tenants.scopes import OPERATOR_TENANT_ID, allowed_for

DEMO_TENANT_ID = "t_demo"
DEMO_RATE_PER_MINUTE = 6_000
DEMO_FUNDS_MICROS = 10_000_000_000
ACTOR = "devstack"

Thing = TypeVar("Thing")


def seed_demo(told: Mapping[str, str]) -> dict[str, str]:
    """Make what is missing and return the keys; safe to repeat. `told` has the keys of an earlier run.

    Keys that are still good are kept, since a key is shown only once.
    """
    if not Tenant.objects.filter(tenant_id=DEMO_TENANT_ID).exists():
        _seeded_unless_refused(
            services.create_tenant(
                tenant_id=DEMO_TENANT_ID,
                display_name="Demo",
                poll_rate_per_minute=DEMO_RATE_PER_MINUTE,
                submit_rate_per_minute=DEMO_RATE_PER_MINUTE,
                actor=ACTOR,
            )
        )
    _fund()
    _admin(told["DPP_ADMIN_USER"], told["DPP_ADMIN_PASSWORD"])
    return {
        "DPP_API_KEY": _good_key(DEMO_TENANT_ID, told.get("DPP_API_KEY", "")),
        "DPP_OPERATOR_KEY": _good_key(OPERATOR_TENANT_ID, told.get("DPP_OPERATOR_KEY", "")),
    }


def _fund() -> None:
    """Top up once, by reference. An empty Redis is rebuilt first, so that the money can be spent at once."""
    _seeded_unless_refused(
        entries.top_up(
            tenant_id=DEMO_TENANT_ID,
            amount_micros=DEMO_FUNDS_MICROS,
            reference="devstack-opening",
            reason="opening funds of the devstack",
            actor=ACTOR,
        )
    )
    watch_gates(limit=1)


def _good_key(tenant_id: str, plaintext: str) -> str:
    scopes = sorted(allowed_for(tenant_id))
    if plaintext.isascii():
        valid = Q(expires_at__isnull=True) | Q(expires_at__gt=clock.now())
        same = ApiKey.objects.filter(
            valid, key_hash=keys.hash_of(plaintext), tenant_id=tenant_id, status=ApiKey.Status.ACTIVE
        )
        # Scopes are written once, in order; a key of an older devstack may lack one that exists since.
        if any(sorted(key.scopes) == scopes for key in same):
            return plaintext
    return _seeded_unless_refused(
        services.issue_key(tenant_id=tenant_id, scopes=scopes, label=ACTOR, actor=ACTOR)
    ).plaintext


def _seeded_unless_refused(result: Thing | Refusal) -> Thing:
    if isinstance(result, Refusal):
        raise SystemExit(f"seeding was refused: {result.field} {result.detail}")
    return result


def _admin(name: str, password: str) -> None:
    """Set the password only if it changed: setting it ends the admin's open sessions."""
    users = get_user_model().objects
    user = users.filter(username=name).first()
    if user is None:
        users.create_superuser(username=name, password=password)
    elif not user.check_password(password):
        user.set_password(password)
        user.save(update_fields=["password"])
