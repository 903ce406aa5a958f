"""The conservation law, proved per tenant to the micro:

    Σ ledger = balance + Σ holds + Σ receipt charges of runs not yet committed + credits not yet applied

and run by run: every hold belongs to an open run, every reserved run has its hold, or a finisher and its receipt; and
for every scope with a cap, window by window (verify_caps.py).
Nothing is stopped for it: what Postgres says counts when Redis shows the same sequence before and after. A tenant that
never stands still is closed for VERIFY_GATE_MS at most.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import redis
from django.db import connection, transaction

from budget import ledger, ports
from budget.models import PendingCredit
from budget.ports import OpenRun
from budget.rebuild.plan import Credit
from budget.redis import scripts, view
from budget.redis.view import SeenMoney, SeenReceipt, SeenScopes
from budget.redis.windows import Counted
from budget.verification import verify_caps
from budget.verification.verify_caps import NOT_LOOKED_AT, CapBooks, Moves
from dpp_project.jobs import deadline

TRIES: Final = 20
GATED_TRIES: Final = 5


class DifferenceKind(StrEnum):
    BALANCE = "BALANCE"
    BALANCE_LOST = "BALANCE_LOST"
    HOLD_WITHOUT_RUN = "HOLD_WITHOUT_RUN"
    HOLD_OF_ANOTHER_AMOUNT = "HOLD_OF_ANOTHER_AMOUNT"
    HOLD_UNREADABLE = "HOLD_UNREADABLE"  # it is no amount; without a run, the key is no hash. It counts as no hold
    RUN_WITHOUT_HOLD = "RUN_WITHOUT_HOLD"
    CAP_COUNTED = "CAP_COUNTED"
    CAP_USED = "CAP_USED"
    CAP_LIMITS = "CAP_LIMITS"
    # Of the ledger itself (ledger_audit.py).
    CHARGE_WITHOUT_RUN = "CHARGE_WITHOUT_RUN"
    RUN_OF_ANOTHER_CHARGE = "RUN_OF_ANOTHER_CHARGE"
    REFUND_OF_ANOTHER_AMOUNT = "REFUND_OF_ANOTHER_AMOUNT"
    SNAPSHOT_OF_ANOTHER_SUM = "SNAPSHOT_OF_ANOTHER_SUM"
    SPEND_DAY_OF_ANOTHER_SUM = "SPEND_DAY_OF_ANOTHER_SUM"
    USAGE_OF_ANOTHER_SUM = "USAGE_OF_ANOTHER_SUM"


@dataclass(frozen=True, slots=True)
class Difference:
    """One row that is wrong: what the ledger and the runs say, and what Redis says."""

    kind: DifferenceKind
    expected_micros: int
    found_micros: int
    run_id: str | None = None
    where: str | None = None
    """What it is a difference of, where that is no run: a date, a key with its rotations, a scope and its period."""


OF_CAPS: Final = frozenset({DifferenceKind.CAP_COUNTED, DifferenceKind.CAP_USED, DifferenceKind.CAP_LIMITS})
"""What holds are refused by; the money itself is right."""


class Verdict(StrEnum):
    PROVED = "proved"
    DIFFERS = "differs"
    CLOSED = "closed"  # being rebuilt, or waiting for it: there is nothing to compare
    UNSETTLED = "unsettled"  # it never stood still, not even behind its gate


@dataclass(frozen=True, slots=True)
class Proof:
    tenant_id: str
    verdict: Verdict
    differences: tuple[Difference, ...] = ()
    gated: bool = False

    @property
    def is_told(self) -> bool:
        """Whether the tenant's money was compared at all. One that was not has no drift of 0: its drift is unknown."""
        return self.verdict in {Verdict.PROVED, Verdict.DIFFERS}

    @property
    def drift_micros(self) -> int | None:
        if not self.is_told:
            return None
        return sum(
            abs(it.expected_micros - it.found_micros) for it in self.differences if it.kind is DifferenceKind.BALANCE
        )


@dataclass(frozen=True, slots=True)
class Books:
    """One view of Postgres."""

    total_micros: int
    open_runs: Mapping[str, OpenRun]
    pending: tuple[Credit, ...]
    caps: tuple[CapBooks, ...] = ()


@dataclass(frozen=True, slots=True)
class Sighting:
    """Redis while it stood still."""

    money: SeenMoney
    receipts: Mapping[str, SeenReceipt] = field(default_factory=dict)
    applied: frozenset[str] = frozenset()
    caps: SeenScopes = field(default_factory=dict)


def verify_tenant_money(tenant_id: str) -> Proof:
    """Raises RedisError or DatabaseError where a service does not answer.

    A tenant with very many scopes is compared in turns, each an instant of its own with the whole law in it: all of
    them at once would take longer than a busy tenant stands still, or may be closed for.
    """
    gated = False
    found: list[Difference] = []
    for turn, scopes in enumerate(verify_caps.scopes_in_turns(tenant_id)):
        deadline.pass_progressed()
        proof = _verify(tenant_id, scopes)
        if not proof.is_told:
            return proof
        gated = gated or proof.gated
        found += [it for it in proof.differences if turn == 0 or it.kind in OF_CAPS]
    return Proof(tenant_id, Verdict.DIFFERS if found else Verdict.PROVED, tuple(found), gated=gated)


def _verify(tenant_id: str, scopes: Sequence[str | None]) -> Proof:
    """Each attempt reads all that the tenant has open. In a pass whose time is over there is one; the next pass comes
    back to the tenant.
    """
    money = scripts.shared_scripts()
    for _ in range(TRIES):
        proof = _attempt(money.client, tenant_id, scopes, gate=None, gated=False)
        if proof is not None:
            return proof
        if deadline.is_over():
            return Proof(tenant_id, Verdict.UNSETTLED)
    for _ in range(GATED_TRIES):
        if deadline.is_over():
            break
        token = money.gate.close_tenant_briefly(money.client, tenant_id)
        if token is None:
            continue
        try:
            proof = _attempt(money.client, tenant_id, scopes, gate=token, gated=True)
        finally:
            money.gate.open_tenant(money.client, tenant_id, token)
        if proof is not None:
            return proof
    return Proof(tenant_id, Verdict.UNSETTLED, gated=True)


def _attempt(
    client: redis.Redis, tenant_id: str, scopes: Sequence[str | None], *, gate: str | None, gated: bool
) -> Proof | None:
    """A proof, or None when something moved while it was counted."""
    seen = view.look_at_money(client, tenant_id)
    if not seen.mark.is_open():
        return Proof(tenant_id, Verdict.CLOSED)
    if seen.mark.gate != gate:
        return None
    caps = verify_caps.look_at_cap_scopes(client, tenant_id, scopes)
    # The books take longest: what has moved already is not compared with them.
    if view.look_at_balance(client, tenant_id).mark != seen.mark:
        return None
    books = read_books(tenant_id, caps)
    without_hold = [run_id for run_id, run in books.open_runs.items() if run.claimed and run_id not in seen.holds]
    sighting = Sighting(
        seen,
        view.seen_receipts(client, without_hold),
        frozenset(view.applied_credits(client, [credit.entry_id for credit in books.pending])),
        caps,
    )
    if view.look_at_balance(client, tenant_id).mark != seen.mark:
        return None
    found = tuple(money_differences(books, sighting))
    return Proof(tenant_id, Verdict.DIFFERS if found else Verdict.PROVED, found, gated=gated)


def read_books(tenant_id: str, caps: SeenScopes = NOT_LOOKED_AT) -> Books:
    """`caps` are the scopes as Redis has them: what was charged is counted in the windows of their dates."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        rows = PendingCredit.objects.filter(tenant_id=tenant_id).values_list(
            "entry_id", "amount_usd_micros", "entry__lineage_id", "entry__spend_day"
        )
        return Books(
            ledger.sums_of(tenant_id).total_micros,
            {run.run_id: run for run in ports.open_runs().open(tenant_id=tenant_id)},
            tuple(
                Credit(tenant_id, str(entry_id), micros, counted=Counted(None if it is None else str(it), day))
                for entry_id, micros, it, day in rows
            ),
            tuple(verify_caps.read_cap_books(tenant_id, caps)),
        )


def money_differences(books: Books, seen: Sighting) -> Iterable[Difference]:
    """Pure: what does not fit between one view of Postgres and one of Redis."""
    money = seen.money
    if money.balance_micros is None:
        yield Difference(DifferenceKind.BALANCE_LOST, books.total_micros, 0)
        return
    taken = sum(seen.receipts[run_id].charge_micros for run_id in books.open_runs if run_id in seen.receipts)
    coming = sum(credit.amount_micros for credit in books.pending if credit.entry_id not in seen.applied)
    expected = books.total_micros - money.held_micros - taken - coming
    if expected != money.balance_micros:
        yield Difference(DifferenceKind.BALANCE, expected, money.balance_micros)
    for run_id, held in money.holds.items():
        run = books.open_runs.get(run_id)
        if run is None:
            yield Difference(DifferenceKind.HOLD_WITHOUT_RUN, 0, held, run_id)
        elif run.reserved_micros != held:
            yield Difference(DifferenceKind.HOLD_OF_ANOTHER_AMOUNT, run.reserved_micros, held, run_id)
    yield from (Difference(DifferenceKind.HOLD_UNREADABLE, 0, 0, run_id) for run_id in money.unreadable)
    for run_id, run in books.open_runs.items():
        if run.reserved and run_id not in money.holds and run_id not in seen.receipts:
            yield Difference(DifferenceKind.RUN_WITHOUT_HOLD, run.reserved_micros, 0, run_id)
    moves = _moves(books, seen)
    for cap in books.caps:
        for kind, expected, found, scope in verify_caps.compare_cap_books(cap, seen.caps[cap.lineage_id], moves):
            yield Difference(DifferenceKind(kind), expected, found, where=scope)


def _moves(books: Books, seen: Sighting) -> Moves:
    """What has moved in Redis and not in the ledger yet, or the other way round, with where it counts."""
    runs = books.open_runs
    coming = [(it.counted, it.amount_micros) for it in books.pending if it.entry_id not in seen.applied]
    taken = [(runs[run_id].counted, it.charge_micros) for run_id, it in seen.receipts.items() if run_id in runs]
    held = [(runs[run_id].counted, micros) for run_id, micros in seen.money.holds.items() if run_id in runs]
    return Moves(charged=verify_caps.by_day(coming + taken), held=verify_caps.by_day(held))
