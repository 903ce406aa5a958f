"""Tenants and keys for tests, written by one statement: the rows that the services write in seven each.

Nearly every test begins with them. `tests/integration/runs/test_ready_rows.py` compares them with the services' own.
"""

import json
import secrets
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, models
from django.db.models.functions import Now

from budget.models import LedgerEntry
from budget.rebuild.plan import Credit
from dpp_project import origins
from dpp_project.observe import tracing
from tenants import keys
from tenants.models import ZONE_DEFAULT, ApiKey, Tenant
from tenants.scopes import OPERATOR_SCOPES, OPERATOR_TENANT_ID, TENANT_SCOPES, Scope
from tenants.services import IssuedKey

ACTOR = "test"
_AUDITED = "actor, source, place, act, subject, tenant_id, before, after, trace_id"
_AUDIT = "(%s, %s, %s, %s, %s, %s, %s::jsonb, %s::jsonb, %s)"


def a_tenant(*, poll_rate_per_minute: int = 60, submit_rate_per_minute: int = 60) -> Tenant:
    rows = ReadyRows()
    rows.tenant(poll_rate_per_minute=poll_rate_per_minute, submit_rate_per_minute=submit_rate_per_minute)
    return rows.write().tenant


def a_key(
    tenant: Tenant | None = None, *, scopes: Iterable[Scope] = TENANT_SCOPES, expires_at: datetime | None = None
) -> IssuedKey:
    tenant = tenant or a_tenant()
    rows = ReadyRows()
    new = rows.key(tenant.tenant_id, scopes=scopes, expires_at=expires_at)
    return IssuedKey(rows.write().key, new.plaintext)


def an_operator_key(*, scopes: Iterable[Scope] = OPERATOR_SCOPES) -> IssuedKey:
    """The reserved tenant comes with the migrations; tests that truncate the tables take it away."""
    tenant, _ = Tenant.objects.get_or_create(tenant_id=OPERATOR_TENANT_ID, defaults={"display_name": "Operator"})
    return a_key(tenant, scopes=scopes)


def bearer(issued: IssuedKey) -> dict[str, str]:
    """The headers of a request made with this key."""
    return {"Authorization": f"Bearer {issued.plaintext}"}


def revoke(key: ApiKey) -> None:
    ApiKey.objects.filter(pk=key.pk).update(status=ApiKey.Status.REVOKED, revoked_at=Now())


def expire(key: ApiKey) -> None:
    ApiKey.objects.filter(pk=key.pk).update(expires_at=Now() - timedelta(seconds=1))


def suspend(key: ApiKey) -> None:
    Tenant.objects.filter(pk=key.tenant_id).update(status=Tenant.Status.SUSPENDED)


KEY_ENDS: Final[tuple[Callable[[ApiKey], None], ...]] = (revoke, expire, suspend)


@dataclass
class Written:
    stood_before: list[str]
    """The tenants that were there already."""
    rows: dict[type[models.Model], Any] = field(default_factory=dict)

    @property
    def tenant(self) -> Tenant:
        found: Tenant = self.rows[Tenant]
        return found

    @property
    def key(self) -> ApiKey:
        found: ApiKey = self.rows[ApiKey]
        return found


@dataclass
class ReadyRows:
    """What one statement is to write: a tenant, its first money, a key, and of each its entry in the audit trail."""

    _models: list[type[models.Model]] = field(default_factory=list)
    _inserts: list[str] = field(default_factory=list)
    _values: list[Any] = field(default_factory=list)
    _acts: list[list[Any]] = field(default_factory=list)

    def tenant(self, *, poll_rate_per_minute: int = 60, submit_rate_per_minute: int = 60) -> str:
        tenant_id = f"t_x{secrets.token_hex(6)}"
        stored = {
            "tenant_id": tenant_id,
            "display_name": "A tenant",
            "poll_rate_per_minute": poll_rate_per_minute,
            "submit_rate_per_minute": submit_rate_per_minute,
        }
        self._insert(Tenant, stored)
        after = {**stored, "refund_own_failures": False, "low_balance_usd_micros": None, "zone": ZONE_DEFAULT}
        after["most_at_work"] = None
        del after["tenant_id"]
        self._act("tenant created", f"tenant {tenant_id}", tenant_id, after=after)
        return tenant_id

    def top_up(self, tenant_id: str, micros: int) -> Credit:
        """The first one, which has reached the balance."""
        entry_id = uuid.uuid4()
        stored = {
            "entry_id": entry_id,
            "tenant_id": tenant_id,
            "kind": "TOPUP",
            "amount_usd_micros": micros,
            "reference": "first",
            "actor": ACTOR,
        }
        self._insert(LedgerEntry, stored)
        after = {"ledger_usd_micros": micros, "amount_usd_micros": micros, "reference": "first"}
        after |= {"entry_id": str(entry_id)}
        subject = f"tenant {tenant_id}"
        self._act("money topped up", subject, tenant_id, before={"ledger_usd_micros": 0}, after=after)
        return Credit(tenant_id, str(entry_id), micros, pending=False)

    def key(self, tenant_id: str, *, scopes: Iterable[Scope], expires_at: datetime | None = None) -> keys.NewKey:
        new = keys.make_api_key()
        chosen = sorted(set(scopes))
        stored = {
            "key_id": uuid.uuid4(),
            "tenant_id": tenant_id,
            "key_hash": new.key_hash,
            "prefix": new.prefix,
            "scopes": [str(scope) for scope in chosen],
            "expires_at": expires_at,
        }
        self._insert(ApiKey, stored)
        after = {"scopes": chosen, "label": None, "expires_at": expires_at and expires_at.isoformat()}
        self._act("key issued", f"key dpp_{new.prefix}", tenant_id, after=after)
        return new

    def write(self) -> "Written":
        audit = f"INSERT INTO audit_entries ({_AUDITED}) VALUES {', '.join([_AUDIT] * len(self._acts))}"  # noqa: S608
        names = [f"made_{model._meta.db_table}" for model in self._models]
        answer = ", ".join(["(SELECT array_agg(tenant_id) FROM tenants)", *(f"{name}.*" for name in names)])
        with connection.cursor() as cursor:
            cursor.execute(
                f"WITH {', '.join([*self._inserts, f'audit AS ({audit})'])} SELECT {answer} FROM {', '.join(names)}",  # noqa: S608
                [*self._values, *(each for act in self._acts for each in act)],
            )
            (stood_before, *row), *_ = cursor.fetchall()
        written = Written(stood_before or [])
        for model in self._models:
            names = [each.attname for each in model._meta.concrete_fields]
            values, row = row[: len(names)], row[len(names) :]
            written.rows[model] = model.from_db("default", names, values)
        return written

    def _insert(self, model: type[models.Model], stored: dict[str, Any]) -> None:
        table = model._meta.db_table
        marks = ", ".join(["%s"] * len(stored))
        columns = ", ".join(each.attname for each in model._meta.concrete_fields)
        insert = f"INSERT INTO {table} ({', '.join(stored)}) VALUES ({marks}) RETURNING {columns}"  # noqa: S608
        self._inserts.append(f"made_{table} AS ({insert})")
        self._models.append(model)
        self._values += stored.values()

    def _act(
        self,
        act: str,
        subject: str,
        tenant_id: str,
        *,
        before: dict[str, Any] | None = None,
        after: dict[str, Any],
    ) -> None:
        here = origins.current_origin()
        facts = [None if facts is None else json.dumps(facts) for facts in (before, after)]
        self._acts.append(
            [ACTOR, here.source, here.place, act, subject, tenant_id, *facts, tracing.current_trace_id() or ""]
        )
