"""What `check --deploy` must find beside the constraints: triggers that tenants and keys rest on, and zones."""

from collections.abc import Sequence
from typing import Any, Final

from django.apps import AppConfig
from django.core.checks import CheckMessage, Warning, register  # noqa: A004  Django's own name
from django.db import DatabaseError, connection

from dpp_project.checks import postgres_was_not_asked, require_trigger

TRIGGERS: Final = (
    ("tenants", "tenants_operator_is_kept"),
    ("api_keys", "api_keys_share_a_lineage"),
)

for _table, _name in TRIGGERS:
    require_trigger(table=_table, name=_name)

SHOWN_MAX: Final = 20


@register(deploy=True)
def zones_are_known(app_configs: Sequence[AppConfig] | None, **_kwargs: Any) -> list[CheckMessage]:
    """A Postgres that was upgraded or moved may know fewer names than the one they were set in."""
    del app_configs
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT tenant_id, zone FROM tenants WHERE known_zone(zone) <> zone ORDER BY tenant_id")
            found = cursor.fetchall()
    except DatabaseError as error:
        return [postgres_was_not_asked(error)]
    if not found:
        return []
    named = ", ".join(f"{tenant_id} ({zone})" for tenant_id, zone in found[:SHOWN_MAX])
    more = f" and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
    hint = "Give this Postgres the names (the package tzdata-legacy), or each of these tenants a zone that it knows."
    return [Warning(f"Postgres does not know the zone of {named}{more}: UTC counts.", hint=hint, id="dpp.W011")]
