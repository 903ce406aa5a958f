"""What Postgres holds, in plain Python: runs under CAS, the ledger, credits. Each method is one statement."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from budget.money import MAX_MICROS
from budget.ports import EndedRun, OpenRun
from budget.rebuild.plan import Credit, rebuild_items
from budget.redis.items import RebuildItem, caps_item
from budget.redis.view import SeenCaps
from budget.redis.windows import NOWHERE, PERIODS, CapPeriod, Counted, cap_window, date_number


@dataclass
class Row:
    tenant_id: str
    run_id: str
    reserved_micros: int
    version: int = 0
    money: str = "NONE"
    stage: str | None = None
    intent_charge_micros: int | None = None  # None: give everything back
    charge_micros: int = 0
    refund_micros: int = 0
    counted: Counted = NOWHERE


Scope = tuple[str, str | None]
"""A tenant, and the lineage of one of its keys or None for the tenant itself."""


@dataclass
class Caps:
    """What Postgres says of a scope that has had a cap."""

    revision: int
    limits: Mapping[CapPeriod, int | None]


@dataclass
class TenantMoney:
    tenant_id: str
    balance_micros: int
    items: list[RebuildItem] = field(default_factory=list)


@dataclass
class Books:
    tenants: tuple[str, ...]
    rows: dict[str, Row] = field(default_factory=dict)
    entries: dict[str, tuple[str, int, str]] = field(default_factory=dict)  # entry → tenant, micros, kind
    pending: dict[str, Credit] = field(default_factory=dict)
    fencing: bool = True
    today: date = date(2026, 4, 30)
    caps: dict[Scope, Caps] = field(default_factory=dict)
    disputed: dict[str, str] = field(default_factory=dict)  # entry → run whose charge it gives back

    def total_micros(self, tenant_id: str) -> int:
        return sum(micros for owner, micros, _ in self.entries.values() if owner == tenant_id)

    # The run.

    def insert(self, tenant_id: str, run_id: str, reserved_micros: int, lineage_id: str | None = None) -> int:
        """The database's clock dates the row."""
        assert run_id not in self.rows
        self.rows[run_id] = Row(tenant_id, run_id, reserved_micros, counted=Counted(lineage_id, self.today))
        return 0

    def date_anew(self, run_id: str, version: int, day: date) -> int | None:
        """Of a row whose price is not held, as a script has said."""
        row = self.rows.get(run_id)
        if row is None or row.version != version or row.money != "NONE" or row.stage is not None:
            return None
        row.counted, row.version = Counted(row.counted.lineage_id, day), version + 1
        return row.version

    def drop(self, run_id: str, version: int) -> bool:
        row = self.rows.get(run_id)
        if row is None or row.version != version or row.money != "NONE" or row.stage is not None:
            return False
        del self.rows[run_id]
        return True

    def mark_reserved(self, run_id: str, version: int) -> bool:
        row = self.rows.get(run_id)
        if row is None or row.version != version or row.money != "NONE" or row.stage is not None:
            return False
        row.money, row.version = "RESERVED", version + 1
        return True

    def claim(self, run_id: str, version: int, charge_micros: int | None) -> int | None:
        """The new version, or None for the loser. Only a reserved run can be charged."""
        row = self.rows.get(run_id)
        if row is None or row.version != version or row.stage is not None:
            return None
        row.stage, row.version = "CLAIMED", version + 1
        row.intent_charge_micros = charge_micros if row.money == "RESERVED" else None
        return row.version

    def retake(self, run_id: str, version: int) -> int | None:
        row = self.rows.get(run_id)
        if row is None or row.version != version or row.stage != "CLAIMED":
            return None
        row.version += 1
        return row.version

    def commit(self, run_id: str, version: int, *, charge_micros: int, refund_micros: int) -> bool:
        row = self.rows[run_id]
        if row.version != version or row.stage != "CLAIMED":
            return False
        row.stage, row.version = "COMMITTED", version + 1
        row.money = "SETTLED" if charge_micros else "REFUNDED"
        row.charge_micros, row.refund_micros = charge_micros, refund_micros
        if charge_micros:
            assert f"charge of {run_id}" not in self.entries
            self.entries[f"charge of {run_id}"] = (row.tenant_id, -charge_micros, "CHARGE")
        return True

    # The ledger.

    def top_up(self, tenant_id: str, entry_id: str, micros: int) -> bool:
        if not 0 <= self.total_micros(tenant_id) + micros <= MAX_MICROS:
            return False
        self.entries[entry_id] = (tenant_id, micros, "TOPUP" if micros > 0 else "ADJUST")
        self.pending[entry_id] = Credit(tenant_id, entry_id, micros)
        return True

    def dispute(self, run_id: str, entry_id: str) -> bool:
        """All of a charge goes back, once."""
        row = self.rows.get(run_id)  # none: a submit that was refused is dropped, perhaps since it was picked
        if row is None or row.stage != "COMMITTED" or not row.charge_micros or run_id in self.disputed.values():
            return False
        self.entries[entry_id] = (row.tenant_id, row.charge_micros, "ADJUST")
        self.pending[entry_id] = Credit(row.tenant_id, entry_id, row.charge_micros)
        self.disputed[entry_id] = run_id
        return True

    def put_caps(self, scope: Scope, limits: Mapping[CapPeriod, int | None]) -> int:
        stood = self.caps.get(scope)
        self.caps[scope] = Caps(1 if stood is None else stood.revision + 1, limits)
        return self.caps[scope].revision

    def in_scope(self, scope: Scope) -> list[Row]:
        tenant_id, lineage_id = scope
        return [
            row
            for row in self.rows.values()
            if row.tenant_id == tenant_id and lineage_id in (None, row.counted.lineage_id)
        ]

    def _seen_caps(self, scope: Scope) -> SeenCaps:
        """As a rebuild counts: by the later of today and the newest date of its runs."""
        rows = self.in_scope(scope)
        day = max([self.today, *(row.counted.day for row in rows if row.counted.day is not None)])
        back = {run: self.entries[entry][1] for entry, run in self.disputed.items()}
        counted, used = dict.fromkeys(PERIODS, 0), dict.fromkeys(PERIODS, 0)
        for row in rows:
            charged = row.charge_micros - back.get(row.run_id, 0)
            held = row.reserved_micros if row.stage != "COMMITTED" and row.money == "RESERVED" else 0
            for period in PERIODS:
                if cap_window(date_number(row.counted.day), period) == cap_window(date_number(day), period):
                    counted[period] += charged + held
                    used[period] += charged
        caps = self.caps[scope]
        return SeenCaps(caps.revision, day, caps.limits, counted, used)

    def applied(self, entry_id: str) -> None:
        self.pending.pop(entry_id, None)

    # The rebuild.

    def fence_and_snapshot(self, tenant_id: str | None = None) -> list[TenantMoney]:
        chosen = self.tenants if tenant_id is None else (tenant_id,)
        rows = [row for row in self.rows.values() if row.tenant_id in chosen]
        for row in rows:
            if self.fencing and (row.stage == "CLAIMED" or (row.stage is None and row.money == "NONE")):
                row.version += 1
        counted = [
            Credit(owner, entry, micros)
            for entry, (owner, micros, kind) in self.entries.items()
            if kind != "CHARGE" and owner in chosen
        ]
        held = dict.fromkeys(chosen, 0)
        for row in rows:
            if row.stage != "COMMITTED" and row.money == "RESERVED":
                held[row.tenant_id] += row.reserved_micros
        money = {tenant: TenantMoney(tenant, self.total_micros(tenant) - held[tenant]) for tenant in chosen}
        beside = rebuild_items(
            open_runs=[
                OpenRun(row.tenant_id, row.run_id, row.reserved_micros, 1, row.money == "RESERVED")
                for row in rows
                if row.stage != "COMMITTED"
            ],
            ended_runs=[
                EndedRun(row.tenant_id, row.run_id, row.charge_micros, row.refund_micros)
                for row in rows
                if row.stage == "COMMITTED"
            ],
            credits_counted=counted,
        )
        for tenant, item in beside:
            money[tenant].items.append(item)
        for scope in self.caps:
            if scope[0] in money:
                money[scope[0]].items.append(caps_item(scope[1], self._seen_caps(scope)))
        return list(money.values())
