"""What `tests/gear/builders/tenants.py` writes at once is what the services write one after the other."""

import json
import re
from typing import Any

import pytest
from django.db import connection, models

from budget import entries
from budget.models import LedgerEntry
from dpp_project.stores import redis
from tenants import services
from tenants.models import ApiKey, Tenant
from tenants.scopes import TENANT_SCOPES
from tests.gear.builders import recovery
from tests.gear.builders.shop import Shop, a_shop

TABLES = ("tenants", "api_keys", "ledger_entries", "pending_credits", "audit_entries")
OF_ITS_OWN = re.compile(r"[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.+]*")


def by_services() -> Tenant:
    tenant_id = "t_by_services"
    made = services.create_tenant(
        tenant_id=tenant_id,
        display_name="A tenant",
        poll_rate_per_minute=60_000,
        submit_rate_per_minute=60_000,
        actor="test",
    )
    assert isinstance(made, Tenant)
    entered = entries.top_up(
        tenant_id=tenant_id, amount_micros=recovery.FUNDS_MICROS, reference="first", reason="", actor="test"
    )
    assert isinstance(entered, entries.Entered)
    assert entered.balance_micros == recovery.FUNDS_MICROS
    services.issue_key(tenant_id=tenant_id, scopes=TENANT_SCOPES, actor="test")
    return made


def picture(tenant: Tenant) -> list[str]:
    """Every row and every key in Redis that is the tenant's, without the names and times that are its alone."""
    found: list[Any] = []
    for table in TABLES:
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT to_jsonb(row) FROM {table} row WHERE tenant_id = %s ORDER BY row",  # noqa: S608
                [tenant.tenant_id],
            )
            found += [(table, {**json.loads(row), "id": None}) for (row,) in cursor.fetchall()]
    entry_id = LedgerEntry.objects.get(tenant=tenant).entry_id
    client: Any = redis.redis_client()
    found += [("heard", client.lrange("budget:evidence", 0, -1).count(f"entry:{entry_id}"))]
    for name in sorted([*client.keys(f"*{tenant.tenant_id}*"), *client.keys(f"*{entry_id}*")]):
        value = "a count of changes" if name.endswith(":seq") else client.get(name)
        found.append((name, value, client.ttl(name) > 0))
    prefix = ApiKey.objects.get(tenant=tenant).prefix
    return [OF_ITS_OWN.sub("-", json.dumps(each).replace(tenant.tenant_id, "-").replace(prefix, "-")) for each in found]


def values(row: models.Model) -> dict[str, Any]:
    return {each.attname: getattr(row, each.attname) for each in row._meta.concrete_fields}


@pytest.mark.parametrize("which", ["the first", "a second"])
def test_a_ready_tenant_is_as_the_services_make_it(shop: Shop, which: str) -> None:
    ready = shop if which == "the first" else a_shop()
    assert picture(ready.tenant) == picture(by_services())
    assert values(ready.tenant) == values(Tenant.objects.get(pk=ready.tenant.pk))
    assert values(ready.issued.key) == values(ApiKey.objects.get(pk=ready.issued.key.pk))
    assert ready.submit().status_code == 202
    recovery.law_holds(ready.tenant)
