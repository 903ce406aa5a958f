"""All the actors of money at once, each taken apart at its effects, over the scripts and the model side by side.

An actor is a generator that stops before every effect. Stopping it for good is a crash; stopping it for long is a
stale process; the order in which actors go on is the schedule.
"""

import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import timedelta

import redis

from budget.redis import gate, keys
from budget.redis.windows import PERIODS, CapPeriod, cap_window, date_number, day_of
from tests.gear.reference.books import Books, Row, Scope, TenantMoney
from tests.gear.reference.caps_model import Lost
from tests.gear.reference.caps_model import Scope as ScopeModel
from tests.gear.reference.money import (
    OTHER,
    TENANT,
    ModelSide,
    ScriptSide,
    Side,
    State,
    Stored,
    caps_keys,
    credit_keys,
    end_keys,
    rebuild_keys,
    run_keys,
    scopes,
)
from tests.gear.reference.money_model import Model

Actor = Iterator[None]


class World:
    """One Redis twice (the real one and the model), one Postgres (the books), and who works on them."""

    def __init__(self, client: redis.Redis) -> None:
        client.flushall()
        self.client = client
        self.books = Books((TENANT, OTHER))
        self.real = ScriptSide(client)
        self.model = Model(server=str(client.info("server")["run_id"]))
        self.mirror = ModelSide(self.model)
        self.sides: tuple[Side, Side] = (self.real, self.mirror)
        self.actors: list[Actor] = []
        self.image: State | None = None
        self.seconds = 0
        self.known_epoch = "none"

    # One effect on both sides.

    def call(self, name: str, names: Sequence[str], arguments: Sequence[str]) -> list[str]:
        answer, modelled = (side.call(name, names, arguments) for side in self.sides)
        assert answer == modelled, (name, names, arguments)
        return answer

    def gate_check(self) -> str | None:
        answer = gate.CHECK(self.client, keys=[keys.EPOCH])
        assert answer == self.model.gate_check()
        return str(answer[1]) if answer[0] == "OPEN" else None

    def put(self, key: str, value: Stored) -> None:
        for side in self.sides:
            side.put(key, value)

    def drop(self, key: str) -> None:
        for side in self.sides:
            side.drop(key)

    def sides_agree(self) -> None:
        assert self.real.state() == self.mirror.state()

    def _on_run(self, name: str, row: Row, *arguments: str, least: Sequence[int] = ()) -> list[str]:
        """As a process does it: with the epoch it knows, looked up again when refused."""
        tail = {
            "reserve": [row.tenant_id, *arguments, "1", row.run_id],
            "settle": [*arguments, row.tenant_id, row.run_id],
        }
        before = tail.get(name, [row.tenant_id, row.run_id])
        names = (run_keys if name == "reserve" else end_keys)(row.tenant_id, row.run_id)
        names += scopes(row.tenant_id, row.counted)
        after = [*([""] if name == "refund_full" else []), date_number(row.counted.day), *(str(it) for it in least)]
        answer = self.call(name, names, [*before, self.known_epoch, *after])
        if answer == ["ERR_UNAVAILABLE", "epoch"] and (epoch := self.gate_check()) is not None:
            self.known_epoch = epoch
            answer = self.call(name, names, [*before, epoch, *after])
        return answer

    # The actors.

    def submit(self, tenant_id: str, reserved_micros: int, lineage_id: str | None = None) -> Actor:
        run_id = uuid.uuid4().hex
        version = self.books.insert(tenant_id, run_id, reserved_micros, lineage_id)
        row = self.books.rows[run_id]
        known = [self.books.caps.get((tenant_id, scope)) for scope in (None, lineage_id)]
        least = [0 if caps is None else caps.revision for caps in known][: 1 if lineage_id is None else 2]
        while True:
            yield
            answer = self._on_run("reserve", row, str(reserved_micros), least=least)
            if answer[0] == "ERR_DATE" and (day := day_of(answer[1])) is not None:
                yield
                dated = self.books.date_anew(run_id, version, day)
                if dated is None:
                    return
                version = dated
            elif answer == ["ERR_UNAVAILABLE", "caps"]:
                yield from self.rebuild_one(tenant_id)
                version = row.version
            elif answer[0] != "ERR_UNAVAILABLE":
                break
        yield
        if answer[0] in {"ERR_INSUFFICIENT", "ERR_CAP"}:
            self.books.drop(run_id, version)
        elif answer[0] == "OK" or (answer[0] == "ERR_ALREADY_RESERVED" and answer[1] != "0"):
            self.books.mark_reserved(run_id, version)

    def finish(self, run_id: str, charge_micros: int | None) -> Actor:
        row = self.books.rows[run_id]
        seen = row.version
        yield
        version = self.books.claim(run_id, seen, charge_micros)
        if version is not None:
            yield from self._carry_out(row, version)

    def retake(self, run_id: str) -> Actor:
        row = self.books.rows[run_id]
        seen = row.version
        yield
        version = self.books.retake(run_id, seen)
        if version is not None:
            yield from self._carry_out(row, version)

    def _carry_out(self, row: Row, version: int) -> Actor:
        while True:
            yield
            if row.intent_charge_micros is None:
                answer = self._on_run("refund_full", row)
                numbers = answer[3:4] + answer[1:2]
            else:
                answer = self._on_run("settle", row, str(row.intent_charge_micros))
                numbers = answer[1:3]
            if answer[0] == "OK":
                break
            assert answer[0] == "ERR_UNAVAILABLE", answer
        charge, refund = (int(text) for text in numbers)
        yield
        self.books.commit(row.run_id, version, charge_micros=charge, refund_micros=refund)

    def top_up(self, tenant_id: str, micros: int) -> Actor:
        entry_id = uuid.uuid4().hex
        epoch = self.gate_check()
        yield
        if self.books.top_up(tenant_id, entry_id, micros) and epoch is not None:
            yield from self._apply(tenant_id, entry_id, micros, epoch)

    def dispute(self, run_id: str) -> Actor:
        entry_id = uuid.uuid4().hex
        epoch = self.gate_check()
        yield
        if self.books.dispute(run_id, entry_id) and epoch is not None:
            row = self.books.rows[run_id]
            yield from self._apply(row.tenant_id, entry_id, row.charge_micros, epoch)

    def put_caps(self, scope: Scope, limits: Mapping[CapPeriod, int | None]) -> Actor:
        """The row, then the script; a scope that does not stand is counted by a rebuild."""
        revision = self.books.put_caps(scope, limits)
        yield
        tenant_id, lineage_id = scope
        words = [str(revision), *("" if limits[it] is None else str(limits[it]) for it in PERIODS), "known"]
        epoch = self.gate_check()
        if epoch is None:
            return
        answer = self.call("caps", caps_keys(tenant_id, lineage_id), [tenant_id, epoch, *words])
        if answer == ["ERR_ABSENT"]:
            yield from self.rebuild_one(tenant_id)

    def replay(self) -> Actor:
        epoch = self.gate_check()
        yield
        for credit in list(self.books.pending.values()):
            if epoch is not None:
                yield from self._apply(credit.tenant_id, credit.entry_id, credit.amount_micros, epoch)

    def _apply(self, tenant_id: str, entry_id: str, micros: int, epoch: str) -> Actor:
        yield
        run_id = self.books.disputed.get(entry_id)
        counted = None if run_id is None else self.books.rows[run_id].counted
        names = [*credit_keys(tenant_id, entry_id), *scopes(tenant_id, counted)]
        day = [] if counted is None else [date_number(counted.day)]
        answer = self.call("credit", names, [tenant_id, str(micros), entry_id, epoch, *day])
        # ERR_LIMIT: an adjustment that makes room is still on its way, and a later replay comes after it.
        assert answer[0] in {"OK", "ERR_UNAVAILABLE", "ERR_LIMIT"}, answer
        if answer[0] == "OK":
            yield
            self.books.applied(entry_id)

    def rebuild(self) -> Actor:
        """Close, fence and snapshot, write, open: each an effect of its own."""
        name = uuid.uuid4().hex
        answer = gate.CLOSE(self.client, keys=[keys.EPOCH], args=[name])
        assert answer == self.model.gate_close(name)
        yield
        snapshot = self.books.fence_and_snapshot()
        for money in snapshot:
            if not (yield from self._write(money, answer[1])):
                return
        yield
        opened = gate.OPEN(self.client, keys=[keys.EPOCH], args=[answer[1], name])
        assert opened == self.model.gate_open(answer[1], name)

    def rebuild_one(self, tenant_id: str) -> Actor:
        token = f"closed.{uuid.uuid4().hex}"
        self.put(keys.gate_key(tenant_id), token)
        yield
        (money,) = self.books.fence_and_snapshot(tenant_id)
        if (yield from self._write(money, token)):
            yield
            if gate.OPEN_TENANT(self.client, keys=[keys.gate_key(tenant_id)], args=[token]) == ["OPEN"]:
                self.mirror.drop(keys.gate_key(tenant_id))

    def _write(self, money: TenantMoney, token: str) -> Generator[None, None, bool]:
        items = money.items
        half = len(items) // 2
        for mode, part in (("begin", items[:half]), ("more", items[half:])):
            yield
            flat = [text for it in part for text in (it.kind, it.id, str(it.first), str(it.second))]
            arguments = [money.tenant_id, token, str(money.balance_micros), mode, *flat]
            if self.call("rebuild", rebuild_keys(part, money.tenant_id), arguments) == ["ERR_SUPERSEDED"]:
                return False
        return True

    # What happens to Redis.

    def flush(self) -> None:
        self.client.flushall()
        self.model.flush()

    def save(self) -> None:
        self.image = self.real.state()

    def restore(self) -> None:
        """An older image under another server: every connection is new, and looks first."""
        assert self.image is not None
        self.flush()
        for key, (value, left) in self.image.items():
            assert isinstance(value, str | dict | list)
            foreign = value.replace(self.model.server, "b" * 40) if isinstance(value, str) else value
            self.put(key, foreign)
            if left is not None:
                self.client.expire(key, left)
                self.model.expires_in[key] = left
        self.gate_check()

    def cut(self, scope: Scope, name: str) -> None:
        """One field of a scope is gone."""
        key = keys.caps_key(*scope)
        fields = {it: text for it, text in self.model.hashes.get(key, {}).items() if it != name}
        self.put(key, fields) if fields else self.drop(key)

    def pass_days(self, days: int) -> None:
        """Midnight, or a clock that is set back."""
        self.books.today += timedelta(days=days)

    def pass_an_hour(self) -> None:
        self.seconds += keys.RESERVE_TTL_SECONDS
        for side in self.sides:
            side.pass_seconds(keys.RESERVE_TTL_SECONDS)

    # The law.

    def is_open(self, tenant_id: str) -> bool:
        strings = self.model.strings
        epoch = strings.get(keys.EPOCH, keys.CLOSED_PREFIX)
        return (
            not epoch.startswith(keys.CLOSED_PREFIX)
            and keys.gate_key(tenant_id) not in strings
            and keys.balance_key(tenant_id) in strings
        )

    def law_holds(self, tenant_id: str) -> None:
        """Σ ledger = balance + Σ holds + Σ charges taken and not committed + credits not applied; to the micro."""
        balance = int(self.model.strings[keys.balance_key(tenant_id)])
        held = sum(int(micros) for micros in self.model.hashes.get(keys.holds_key(tenant_id), {}).values())
        taken = sum(
            int(self.model.strings.get(keys.receipt_key(row.run_id), "0 ").split(" ")[0])
            for row in self.books.rows.values()
            if row.tenant_id == tenant_id and row.stage != "COMMITTED"
        )
        coming = sum(
            credit.amount_micros
            for credit in self.books.pending.values()
            if credit.tenant_id == tenant_id and keys.credit_key(credit.entry_id) not in self.model.strings
        )
        total = self.books.total_micros(tenant_id)
        assert total == balance + held + taken + coming, (tenant_id, total, balance, held, taken, coming)

    def scope_law_holds(self, scope: Scope) -> None:
        """Counted is what the windows' runs hold and were charged, used is what they were charged; to the micro."""
        seen = ScopeModel.of(self.model.hashes.get(keys.caps_key(*scope), {}))
        if seen is None:
            return
        back = {
            run_id: self.books.entries[entry_id][1]
            for entry_id, run_id in self.books.disputed.items()
            if entry_id not in self.books.pending or keys.credit_key(entry_id) in self.model.strings
        }
        for period in PERIODS:
            held = charged = 0
            for row in self.books.in_scope(scope):
                if cap_window(date_number(row.counted.day), period) != cap_window(seen.date, period):
                    continue
                held += int(self.model.hashes.get(keys.holds_key(row.tenant_id), {}).get(row.run_id, "0"))
                receipt = self.model.strings.get(keys.receipt_key(row.run_id), "0 ").split(" ")[0]
                charged += row.charge_micros if row.stage == "COMMITTED" else int(receipt)
                charged -= back.get(row.run_id, 0)
            found = (seen.counted[period], seen.used[period])
            assert found == (held + charged, charged), (scope, period, found, held, charged)

    def is_lost(self, scope: Scope) -> bool:
        try:
            return ScopeModel.of(self.model.hashes.get(keys.caps_key(*scope), {})) is None
        except Lost:
            return True

    def laws_hold(self) -> None:
        for tenant_id in self.books.tenants:
            if self.is_open(tenant_id):
                self.law_holds(tenant_id)
        for scope in self.books.caps:
            if self.is_open(scope[0]) and not self.is_lost(scope):
                self.scope_law_holds(scope)

    def settle_down(self) -> None:
        """Everyone is gone; recovery does its work; then nothing may be held, on its way, or missing."""
        self.actors.clear()
        for tenant_id in self.books.tenants:
            if not self.is_open(tenant_id) or any(self.is_lost(it) for it in self.books.caps if it[0] == tenant_id):
                run_out(self.rebuild())
                break
        for _ in range(3):
            run_out(self.replay())
        for row in list(self.books.rows.values()):
            if row.stage is None:
                run_out(self.finish(row.run_id, row.reserved_micros // 3))
            elif row.stage == "CLAIMED":
                run_out(self.retake(row.run_id))
        for tenant_id in self.books.tenants:
            self.law_holds(tenant_id)
            assert keys.holds_key(tenant_id) not in self.model.hashes
            assert int(self.model.strings[keys.balance_key(tenant_id)]) == self.books.total_micros(tenant_id)
        for scope in self.books.caps:
            self.scope_law_holds(scope)
        assert not self.books.pending
        assert all(row.stage == "COMMITTED" for row in self.books.rows.values())
        self.sides_agree()


def run_out(actor: Actor) -> None:
    for step, _ in enumerate(actor):
        assert step < 1_000, "an actor waits for ever"
