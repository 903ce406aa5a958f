"""The contract of the Lua scripts in plain Python: the same keys, arguments and answers, on a dict.

The one suite of tests/contract runs over this and over the scripts, and a random machine drives both side by side.
Written from the scripts' headers, in Python's own arithmetic: where the two differ, one of them is wrong.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from budget.money import MAX_MICROS
from budget.redis import keys
from budget.redis.windows import PERIODS, UNDATED
from tests.gear.reference.caps_model import Lost, Scope, count_hold, is_date, is_scope, scope_in

_AMOUNT: Final = re.compile(r"[1-9][0-9]*", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]{1,16}", re.ASCII)
_BALANCE: Final = re.compile(r"(?=.{1,18}$)-?[0-9]+", re.ASCII)
_REVISION: Final = re.compile(r"[0-9]{0,16}", re.ASCII)

Answer = list[str]


class Receipt(NamedTuple):
    """What `receipt:{run}` says, in its order."""

    charge: str
    refund: str
    balance: str
    tenant_id: str


@dataclass
class Model:
    """Redis as the scripts see it. Time passes only when told."""

    server: str = "a" * 40
    strings: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, dict[str, str]] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)
    expires_in: dict[str, int] = field(default_factory=dict)

    # What happens to a server.

    def pass_seconds(self, seconds: int) -> None:
        for key, left in list(self.expires_in.items()):
            if left > seconds:
                self.expires_in[key] = left - seconds
            else:
                self._delete(key)

    def flush(self) -> None:
        self.strings.clear()
        self.hashes.clear()
        self.lists.clear()
        self.expires_in.clear()

    # The scripts.

    def reserve(self, names: Sequence[str], arguments: Sequence[str]) -> Answer:
        tenant, amount, created, run, epoch, date, *least = _words(arguments, 8)
        wrong = _first_wrong(
            ("tenant_id", bool(tenant)),
            ("reserved_usd_micros", _is_amount(amount)),
            ("created_at_ms", bool(_DIGITS.fullmatch(created))),
            ("run_id", bool(run)),
            ("epoch", bool(epoch)),
            ("date", is_date(date)),
            ("least_revision", all(_REVISION.fullmatch(text) for text in least)),
            ("keys", _are(names, _run_keys(tenant, run), tenant)),
        )
        closed = wrong or self._closed(tenant, epoch)
        if closed:
            return closed
        known = self._known_of(tenant, run)
        if known:
            return known
        balance = int(self.strings[keys.balance_key(tenant)])
        if balance < int(amount):
            return ["ERR_INSUFFICIENT", str(balance)]
        refusal = self._count_hold(names[7:], int(amount), date, least)
        if refusal:
            return refusal
        self._raise_seq(tenant)
        self._set_balance(tenant, balance - int(amount))
        self.hashes.setdefault(keys.holds_key(tenant), {})[run] = amount
        self._write_reserve(tenant, run, amount, created)
        return ["OK", str(balance - int(amount))]

    def settle(self, names: Sequence[str], arguments: Sequence[str]) -> Answer:
        charge, tenant, run, epoch, date = _words(arguments, 5)
        wrong = _first_wrong(
            ("charge_usd_micros", charge == "0" or _is_amount(charge)),
            ("tenant_id", bool(tenant)),
            ("run_id", bool(run)),
            ("epoch", bool(epoch)),
            ("date", is_date(date)),
            ("keys", _are(names, _end_keys(tenant, run), tenant)),
        )
        closed = wrong or self._closed(tenant, epoch)
        if closed:
            return closed
        receipt = self._receipt(run)
        if receipt:
            return _settled(receipt, "again") if receipt.tenant_id == tenant else _MISMATCH
        held = self._held(tenant, run)
        if not held:
            reserve = self.hashes.get(keys.reserve_key(run))
            return _MISMATCH if reserve and reserve["tenant_id"] != tenant else ["ERR_NO_RESERVE"]
        taken = min(int(charge), int(held))
        self._tell(f"end:{run}")
        self._move(names[8:], date, counted=taken - int(held), used=taken)
        return _settled(self._end(tenant, run, charge=taken, refund=int(held) - taken), "first")

    def refund_full(self, names: Sequence[str], arguments: Sequence[str]) -> Answer:
        tenant, run, epoch, was_held, date = _words(arguments, 5)
        wrong = _first_wrong(
            ("tenant_id", bool(tenant)),
            ("run_id", bool(run)),
            ("epoch", bool(epoch)),
            ("date", is_date(date)),
            ("keys", _are(names, _end_keys(tenant, run), tenant)),
        )
        closed = wrong or self._closed(tenant, epoch)
        if closed:
            return closed
        receipt = self._receipt(run)
        if receipt and receipt.tenant_id == tenant and was_held == "held" and receipt.charge == receipt.refund == "0":
            return ["ERR_NO_RESERVE"]
        if receipt:
            return _refunded(receipt, "again") if receipt.tenant_id == tenant else _MISMATCH
        held = self._held(tenant, run)
        reserve = self.hashes.get(keys.reserve_key(run))
        if not held and reserve and reserve["tenant_id"] != tenant:
            return _MISMATCH
        if held == _NO_AMOUNT or (held is None and (reserve or was_held == "held")):
            return ["ERR_NO_RESERVE"]
        if was_held == "held":
            self._tell(f"end:{run}")
        self._move(names[8:], date, counted=-int(held or 0), used=0)
        ended = self._end(tenant, run, charge=0, refund=int(held or 0))
        return _refunded(ended, "tombstone" if held is None else "first")

    def credit(self, names: Sequence[str], arguments: Sequence[str]) -> Answer:
        tenant, amount, entry, epoch, date = _words(arguments, 5)
        wrong = _first_wrong(
            ("tenant_id", bool(tenant)),
            ("amount_usd_micros", _is_amount(amount.removeprefix("-"))),
            ("entry_id", bool(entry)),
            ("epoch", bool(epoch)),
            ("date", is_date(date)),
            ("keys", _are(names, _credit_keys(tenant, entry), tenant)),
        )
        closed = wrong or self._closed(tenant, epoch)
        if closed:
            return closed
        receipt = self.strings.get(keys.credit_key(entry))
        if receipt:
            _, left_then, whose = receipt.split(" ", 2)
            return ["OK", left_then, "again"] if whose == tenant else _MISMATCH
        before = int(self.strings[keys.balance_key(tenant)])
        if abs(before + int(amount)) > MAX_MICROS:
            return ["ERR_LIMIT", str(before)]
        self._raise_seq(tenant)
        self._set_balance(tenant, before + int(amount))
        self._write_credit(tenant, entry, amount, str(before + int(amount)))
        self._tell(f"entry:{entry}")
        self._move(names[6:], date, counted=-int(amount), used=-int(amount))
        return ["OK", str(before + int(amount)), "first"]

    def caps(self, names: Sequence[str], arguments: Sequence[str]) -> Answer:
        tenant, epoch, revision, *limits, mode = _words(arguments, 8)
        scope_key = names[0] if names else ""
        wrong = _first_wrong(
            ("tenant_id", bool(tenant)),
            ("epoch", bool(epoch)),
            ("revision", _is_amount(revision)),
            *((f"{it}_limit", text in {"", "0"} or _is_amount(text)) for it, text in zip(PERIODS, limits, strict=True)),
            ("mode", mode in {"new", "known"}),
            (
                "keys",
                list(names[1:]) == [keys.EPOCH, keys.seq_key(tenant), keys.gate_key(tenant)]
                and (scope_key == keys.caps_key(tenant) or _is_of_a_lineage(scope_key, tenant)),
            ),
        )
        if wrong:
            return wrong
        if self.strings.get(keys.EPOCH) != epoch:
            return ["ERR_UNAVAILABLE", "epoch"]
        if keys.gate_key(tenant) in self.strings:
            return ["ERR_UNAVAILABLE", "gate"]
        scope = self._scope_or_none(scope_key)
        if scope is None and mode == "known":
            return ["ERR_ABSENT"]
        if scope is not None and scope.revision >= int(revision):
            return ["ERR_OLD", str(scope.revision)]
        self._raise_seq(tenant)
        scope = scope or Scope(0, UNDATED, {}, dict.fromkeys(PERIODS, 0), dict.fromkeys(PERIODS, 0))
        scope.revision = int(revision)
        scope.limits = {it: int(text) if text else None for it, text in zip(PERIODS, limits, strict=True)}
        self._delete(scope_key)
        self.hashes[scope_key] = scope.fields()
        return ["OK"]

    def rebuild(self, names: Sequence[str], arguments: Sequence[str]) -> Answer:
        tenant, token, balance, mode = _words(arguments[:4], 4)
        items = [tuple(arguments[at : at + 4]) for at in range(4, len(arguments), 4)]
        wrong = _first_wrong(
            ("tenant_id", bool(tenant)),
            ("token", bool(token)),
            ("balance", _is_size(balance.removeprefix("-"))),
            ("mode", mode in {"begin", "more"}),
            ("keys", list(names[:5]) == _rebuild_keys(tenant) and len(names) == 5 + 2 * len(items)),
        ) or _first_wrong_item(tenant, items, names[5:])
        if wrong:
            return wrong
        epoch = self.strings.get(keys.EPOCH, keys.CLOSED_PREFIX)
        whole = epoch == token
        alone = self.strings.get(keys.gate_key(tenant)) == token and not epoch.startswith(keys.CLOSED_PREFIX)
        if not whole and not alone:
            return ["ERR_SUPERSEDED"]
        self._raise_seq(tenant)
        if mode == "begin":
            self._delete(keys.holds_key(tenant))
            self._set_balance(tenant, int(balance))
            if whole:
                self._delete(keys.gate_key(tenant))
        for item in items:
            self._write_item(tenant, balance, item)
        return ["OK"]

    def gate_check(self) -> Answer:
        epoch = self.strings.get(keys.EPOCH)
        if epoch is None:
            return ["CLOSED", "missing"]
        if epoch.startswith(keys.CLOSED_PREFIX):
            return ["CLOSED", epoch]
        if epoch.partition(".")[0] == self.server:
            return ["OPEN", epoch]
        self.strings[keys.EPOCH] = f"{keys.CLOSED_PREFIX}{self.server}.by-check"
        return ["CLOSED", self.strings[keys.EPOCH]]

    def gate_close(self, name: str) -> Answer:
        self.strings[keys.EPOCH] = f"{keys.CLOSED_PREFIX}{self.server}.{name}"
        return ["CLOSED", self.strings[keys.EPOCH]]

    def gate_open(self, token: str, name: str) -> Answer:
        if self.strings.get(keys.EPOCH) != token or not token.startswith(f"{keys.CLOSED_PREFIX}{self.server}."):
            return ["ERR_SUPERSEDED"]
        self.strings[keys.EPOCH] = f"{self.server}.{name}"
        return ["OPEN", self.strings[keys.EPOCH]]

    # What the scripts are made of.

    def _known_of(self, tenant: str, run: str) -> Answer | None:
        """Why a run cannot be held that has been heard of."""
        receipt = self._receipt(run)
        if receipt:
            return ["ERR_CLOSED", receipt.charge] if receipt.tenant_id == tenant else _MISMATCH
        reserve = self.hashes.get(keys.reserve_key(run))
        if reserve and reserve["tenant_id"] != tenant:
            return _MISMATCH
        held = self._held(tenant, run)
        return ["ERR_ALREADY_RESERVED", held or "0"] if held is not None or reserve else None

    def _scope(self, key: str) -> Scope | None:
        if key in self.strings or key in self.lists:
            raise Lost
        return Scope.of(self.hashes.get(key, {}))

    def _scope_or_none(self, key: str) -> Scope | None:
        try:
            return self._scope(key)
        except Lost:
            return None

    def _count_hold(self, names: Sequence[str], micros: int, date: str, least: Sequence[str]) -> Answer | None:
        """Count a hold in every scope that stands, or say why it may not be: then nothing has changed."""
        try:
            scopes = [self._scope(name) for name in names]
        except Lost:
            return ["ERR_UNAVAILABLE", "caps"]
        refusal = count_hold(scopes, micros, date, [int(text or "0") for text in least])
        for name, scope in zip(names, scopes, strict=True):
            if refusal is None and scope is not None:
                self.hashes[name] |= scope.fields()
        return refusal

    def _move(self, names: Sequence[str], date: str, *, counted: int, used: int) -> None:
        for name in names if date else ():
            scope = Scope.of_counters(self.hashes.get(name, {}))
            if scope is not None:
                scope.move(date, counted=counted, used=used)
                self.hashes[name] |= scope.counters()

    def _closed(self, tenant: str, epoch: str) -> Answer | None:
        if self.strings.get(keys.EPOCH) != epoch:
            return ["ERR_UNAVAILABLE", "epoch"]
        if keys.gate_key(tenant) in self.strings:
            return ["ERR_UNAVAILABLE", "gate"]
        if not _BALANCE.fullmatch(self.strings.get(keys.balance_key(tenant), "")):
            return ["ERR_UNAVAILABLE", "balance"]
        return None

    def _held(self, tenant: str, run: str) -> str | None:
        """None where nothing stands as the hold."""
        if keys.holds_key(tenant) in self.strings or keys.holds_key(tenant) in self.lists:
            return _NO_AMOUNT
        held = self.hashes.get(keys.holds_key(tenant), {}).get(run)
        return held if held is None or _is_size(held) else _NO_AMOUNT

    def _end(self, tenant: str, run: str, *, charge: int, refund: int) -> Receipt:
        self._raise_seq(tenant)
        self._set_balance(tenant, int(self.strings[keys.balance_key(tenant)]) + refund)
        holds = self.hashes.get(keys.holds_key(tenant), {})
        holds.pop(run, None)
        if not holds:
            self._delete(keys.holds_key(tenant))
        self._delete(keys.reserve_key(run))
        return self._write_receipt(tenant, run, str(charge), str(refund), self.strings[keys.balance_key(tenant)])

    def _write_item(self, tenant: str, balance: str, item: Sequence[str]) -> None:
        kind, name, first, second = item
        if kind == "credit":
            self._write_credit(tenant, name, first, balance)
            if second == "0":
                self.expires_in[keys.credit_key(name)] = keys.RECEIPT_TTL_SECONDS
            return
        if kind == "caps":
            key = keys.caps_key(tenant, name or None)
            self._delete(key)
            if first:
                self.hashes[key] = scope_in(first).fields()
            return
        self._delete(keys.reserve_key(name))
        self._delete(keys.receipt_key(name))
        if kind == "hold":
            self.hashes.setdefault(keys.holds_key(tenant), {})[name] = first
            self._write_reserve(tenant, name, first, second)
        elif kind == "receipt":
            self._write_receipt(tenant, name, first, second, balance)

    def _write_reserve(self, tenant: str, run: str, amount: str, created: str) -> None:
        key = keys.reserve_key(run)
        self.hashes[key] = {"tenant_id": tenant, "reserved_usd_micros": amount, "created_at_ms": created}
        self.expires_in[key] = keys.RESERVE_TTL_SECONDS

    def _receipt(self, run: str) -> Receipt | None:
        written = self.strings.get(keys.receipt_key(run))
        return None if written is None else Receipt(*written.split(" ", 3))

    def _write_receipt(self, tenant: str, run: str, charge: str, refund: str, balance: str) -> Receipt:
        key = keys.receipt_key(run)
        self.strings[key] = f"{charge} {refund} {balance} {tenant}"
        self.expires_in[key] = keys.RECEIPT_TTL_SECONDS
        return Receipt(charge, refund, balance, tenant)

    def _write_credit(self, tenant: str, entry: str, amount: str, balance: str) -> None:
        key = keys.credit_key(entry)
        self.strings[key] = f"{amount} {balance} {tenant}"
        self.expires_in.pop(key, None)

    def _set_balance(self, tenant: str, micros: int) -> None:
        self.strings[keys.balance_key(tenant)] = str(micros)

    def _tell(self, commit: str) -> None:
        told = self.lists.setdefault(keys.EVIDENCE, [])
        told.insert(0, commit)
        if len(told) > keys.EVIDENCE_CUT_ABOVE:
            del told[keys.EVIDENCE_MAX :]

    def _raise_seq(self, tenant: str) -> None:
        self.strings[keys.seq_key(tenant)] = str(int(self.strings.get(keys.seq_key(tenant), "0")) + 1)

    def _delete(self, key: str) -> None:
        self.strings.pop(key, None)
        self.hashes.pop(key, None)
        self.lists.pop(key, None)
        self.expires_in.pop(key, None)


_MISMATCH: Final = ["ERR_TENANT_MISMATCH"]
_NO_AMOUNT: Final = ""
"""Stands as a hold, and is none: lost, as one that is gone."""


def _words(arguments: Sequence[str], count: int) -> list[str]:
    """The arguments, absent ones as empty: absent and empty are taken alike."""
    return [*arguments, *[""] * count][:count]


def _are(names: Sequence[str], fixed: Sequence[str], tenant: str) -> bool:
    """These keys; after them, or not, the tenant's scope, and after that, or not, one of its lineages'."""
    scopes = names[len(fixed) :]
    return (
        list(names[: len(fixed)]) == list(fixed)
        and len(scopes) <= 2
        and all(name == keys.caps_key(tenant) for name in scopes[:1])
        and all(_is_of_a_lineage(name, tenant) for name in scopes[1:])
    )


def _is_of_a_lineage(name: str, tenant: str) -> bool:
    return name.startswith(keys.caps_key(tenant, "")) and name != keys.caps_key(tenant, "")


def _is_amount(text: str) -> bool:
    return bool(_AMOUNT.fullmatch(text)) and int(text) <= MAX_MICROS


def _is_size(text: str) -> bool:
    return bool(_DIGITS.fullmatch(text)) and int(text) <= MAX_MICROS


def _first_wrong(*checks: tuple[str, bool]) -> Answer | None:
    return next((["ERR_ARGUMENT", name] for name, right in checks if not right), None)


def _first_wrong_item(tenant: str, items: Sequence[tuple[str, ...]], names: Sequence[str]) -> Answer | None:
    for (kind, name, first, second), pair in zip(items, zip(names[::2], names[1::2], strict=True), strict=True):
        expected = {
            "credit": (keys.credit_key(name), keys.credit_key(name)),
            "caps": (keys.caps_key(tenant, name or None), keys.caps_key(tenant, name or None)),
            **dict.fromkeys(("hold", "none", "receipt"), (keys.reserve_key(name), keys.receipt_key(name))),
        }.get(kind)
        if expected is None:
            return ["ERR_ARGUMENT", "item"]
        if pair != expected:
            return ["ERR_ARGUMENT", "keys"]
        if kind == "caps":
            if not is_scope(first) or not _is_size(second):
                return ["ERR_ARGUMENT", "item"]
            continue
        size = first.removeprefix("-") if kind == "credit" else first
        if not _is_size(size) or not _is_size(second) or (kind == "hold" and first == "0"):
            return ["ERR_ARGUMENT", "item"]
    return None


def _settled(receipt: Receipt, turn: str) -> Answer:
    return ["OK", receipt.charge, receipt.refund, receipt.balance, turn]


def _refunded(receipt: Receipt, turn: str) -> Answer:
    return ["OK", receipt.refund, receipt.balance, receipt.charge, turn]


def _run_keys(tenant: str, run: str) -> list[str]:
    return [
        keys.balance_key(tenant),
        keys.reserve_key(run),
        keys.holds_key(tenant),
        keys.receipt_key(run),
        keys.EPOCH,
        keys.seq_key(tenant),
        keys.gate_key(tenant),
    ]


def _end_keys(tenant: str, run: str) -> list[str]:
    return [*_run_keys(tenant, run), keys.EVIDENCE]


def _credit_keys(tenant: str, entry: str) -> list[str]:
    return [
        keys.balance_key(tenant),
        keys.credit_key(entry),
        keys.EPOCH,
        keys.seq_key(tenant),
        keys.gate_key(tenant),
        keys.EVIDENCE,
    ]


def _rebuild_keys(tenant: str) -> list[str]:
    return [keys.balance_key(tenant), keys.holds_key(tenant), keys.EPOCH, keys.seq_key(tenant), keys.gate_key(tenant)]
