"""How often an address has failed to sign in lately, to the console and to the account pages together.

Failures stand in the audit trail, and are counted from there: every process sees the same ones.
"""

import ipaddress
from datetime import timedelta
from typing import Final

from django.db.models import QuerySet
from django.db.models.functions import Now

from dpp_project import origins
from dpp_project.audit.models import AuditEntry

WINDOW: Final = timedelta(minutes=15)
ADDRESS_FAILURES_MAX: Final = 20
FAILED: Final = "sign-in failed"  # idx_audit_failed_sign_ins names it, too
NOBODY: Final = "nobody signed in"


def failed_lately() -> QuerySet[AuditEntry]:
    return AuditEntry.objects.filter(act=FAILED, at__gte=Now() - WINDOW)


def attempts_reach(found: QuerySet[AuditEntry], bound: int) -> bool:
    return found.order_by()[:bound].count() == bound


def address_failed_too_often() -> bool:
    return attempts_reach(failed_lately().filter(after__network=attempt_network()), ADDRESS_FAILURES_MAX)


def attempt_network() -> str:
    """The address, or the /64 of an IPv6 one, which one customer of a provider has as a whole."""
    place = origins.current_origin().place
    try:
        address = ipaddress.ip_address(place)
    except ValueError:
        return place
    return place if address.version == 4 else str(ipaddress.ip_network((address, 64), strict=False))
