"""Money that comes in or is put right: an entry in the ledger, then its credit on the balance.

Each use case names its idempotency key, and what is true if it dies.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Final
from uuid import UUID

import redis
import structlog
from django.db import transaction
from django.db.models.functions import Now

from budget import ledger, solo_limit
from budget.models import LedgerEntry, PendingCredit
from budget.money import MAX_MICROS, AmountInvalid, checked_credit_micros, checked_micros
from budget.outcomes import Closed, Credited, LimitPassed, Unavailable
from budget.rebuild import rebuild
from budget.redis import scripts
from budget.redis.gate import GateClosed
from budget.redis.windows import Counted
from budget.services import BALANCE_LOST, Available, asked_while_gated, balance
from dpp_project.audit import trail
from dpp_project.jobs import deadline
from dpp_project.jobs.rotation import Rotation
from dpp_project.jobs.skipped_rows import SHOWN_MAX, SkippedRows
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from tenants.models import Tenant
from tenants.scopes import OPERATOR_TENANT_ID

log = structlog.get_logger("dpp.budget")

REFERENCE_LENGTH_MAX: Final = 64
TEXT_LENGTH_MAX: Final = 200
TICKET_REFERENCE: Final = "ticket-"
OUR_REFERENCES: Final = ("run:", "dispute:", "refund:", "ledger-loss:", TICKET_REFERENCE)
REPLAY_AGE_MAX: Final = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class Entered:
    """The entry stands in the ledger. `balance_micros` is None until it has reached the balance: a job sees to that."""

    entry: LedgerEntry
    is_new: bool
    balance_micros: int | None


def top_up(
    *,
    tenant_id: str,
    amount_micros: int,
    reference: str,
    reason: str,
    actor: str,
    dry_run: bool = False,
    of_ticket: bool = False,
    approved_by: str | None = None,
) -> Entered | Refusal:
    """Money comes in. Key: (tenant, reference); the same reference with another amount is refused.

    A tenant in debt may pay it off in parts: what comes in is bounded above alone. Above the solo limit it takes
    `approved_by`, the second person of a ticket; what was entered before is answered as it stands.

    Order: read the epoch; one transaction writes entry and pending credit; the script brings it to the balance; the
    pending row goes. Dying after the transaction leaves the row to the replay; a rebuild in between has counted the
    entry and refuses or recognises the late script.
    """
    try:
        checked_micros(amount_micros)
    except AmountInvalid as error:
        return invalid("amount", str(error))
    wanted = _Wanted(
        LedgerEntry.Kind.TOPUP,
        tenant_id,
        amount_micros,
        reference,
        reason,
        actor,
        of_ticket=of_ticket,
        approved_by=approved_by,
    )
    return _enter(wanted, dry_run=dry_run)


def adjust_balance(
    *,
    tenant_id: str,
    amount_micros: int,
    reference: str,
    reason: str,
    actor: str,
    dry_run: bool = False,
    of_ticket: bool = False,
    approved_by: str | None = None,
) -> Entered | Refusal:
    """Put something right, either way. Key, order, solo limit and crash window as for `top_up`.

    It may take no more than the ledger holds for the tenant; with holds open the balance can go below zero meanwhile,
    and nothing is held until it is back.
    """
    try:
        checked_credit_micros(amount_micros)
    except AmountInvalid as error:
        return invalid("amount", str(error))
    if not reason.strip():
        return invalid("reason", "say why the adjustment is made")
    wanted = _Wanted(
        LedgerEntry.Kind.ADJUST,
        tenant_id,
        amount_micros,
        reference,
        reason,
        actor,
        of_ticket=of_ticket,
        approved_by=approved_by,
    )
    return _enter(wanted, dry_run=dry_run)


@dataclass(frozen=True, slots=True)
class _Wanted:
    kind: LedgerEntry.Kind
    tenant_id: str
    amount_micros: int
    reference: str
    reason: str
    actor: str
    of_ticket: bool
    """Its reference is a ticket's own, which nobody else may use: the ticket would take the entry for its own."""
    approved_by: str | None
    """The second person, without whom no more than the solo limit is entered."""


def _enter(wanted: _Wanted, *, dry_run: bool) -> Entered | Refusal:
    fault = _text_fault(wanted)
    if fault is not None:
        return fault
    epoch = None if dry_run else open_epoch()
    # Durable: inside someone's transaction the balance could rise for an entry that is rolled back.
    with transaction.atomic(durable=True):
        answer = _append(wanted)
        if isinstance(answer, Refusal):
            return answer
        entry, is_new = answer
        pending = PendingCredit.objects.select_related("entry").filter(entry=entry).first()
        transaction.set_rollback(dry_run)
    if dry_run:
        return Entered(entry, is_new, None)
    if is_new:
        log.info(
            "ledger entry",
            kind=wanted.kind.value,
            tenant_id=wanted.tenant_id,
            entry_id=str(entry.entry_id),
            amount_usd_micros=wanted.amount_micros,
            actor=wanted.actor,
        )
    if pending is not None:
        return Entered(entry, is_new, bring_to_balance(pending, epoch=epoch))
    now = balance(tenant_id=wanted.tenant_id)
    return Entered(entry, is_new, now.balance_micros if isinstance(now, Available) else None)


def _append(wanted: _Wanted) -> tuple[LedgerEntry, bool] | Refusal:
    """Under the tenant's row lock, so that two with one reference, or both just under the limit, take turns."""
    tenant_id = wanted.tenant_id
    if tenant_id == OPERATOR_TENANT_ID:
        return invalid("tenant_id", f"{tenant_id} runs the platform and holds no money")
    if not Tenant.objects.select_for_update(no_key=True).filter(tenant_id=tenant_id).exists():
        return Refusal(ReasonCode.NOT_FOUND, "there is no such tenant", "tenant_id")
    written = ledger.entry_by_reference(tenant_id, wanted.reference)
    if written is not None:
        if (written.kind, written.amount_usd_micros) == (wanted.kind, wanted.amount_micros):
            return written, False
        return Refusal(
            ReasonCode.IDEMPOTENCY_CONFLICT,
            f"it stands for a {written.kind} of {written.amount_usd_micros} micros already; choose another",
            "reference",
        )
    before_micros = ledger.sums_of(tenant_id).total_micros
    total_micros = before_micros + wanted.amount_micros
    if (fault := _amount_fault(wanted, total_micros)) is not None:
        return fault
    entry = ledger.append_credit(
        tenant_id=tenant_id,
        kind=wanted.kind,
        amount_micros=wanted.amount_micros,
        reference=wanted.reference,
        reason=wanted.reason,
        actor=wanted.actor,
    )
    trail.record_in_trail(
        f"money {'topped up' if wanted.kind is LedgerEntry.Kind.TOPUP else 'adjusted'}",
        actor=wanted.actor,
        subject=f"tenant {tenant_id}",
        tenant_id=tenant_id,
        before={"ledger_usd_micros": before_micros},
        after={
            "ledger_usd_micros": total_micros,
            "amount_usd_micros": wanted.amount_micros,
            "reference": wanted.reference,
            "entry_id": entry.entry_id,
        },
        reason=wanted.reason,
    )
    return entry, True


def _amount_fault(wanted: _Wanted, total_micros: int) -> Refusal | None:
    """`total_micros` is what the ledger would come to."""
    if total_micros > MAX_MICROS or (total_micros < 0 and wanted.amount_micros < 0):
        return invalid("amount", f"the tenant's money must stay between 0 and {MAX_MICROS} micros")
    ticket_type = "BUDGET_TOPUP" if wanted.kind is LedgerEntry.Kind.TOPUP else "BUDGET_ADJUST"
    return solo_limit.solo_limit_fault(
        wanted.amount_micros, field="amount", ticket_type=ticket_type, approved_by=wanted.approved_by
    )


def _text_fault(wanted: _Wanted) -> Refusal | None:
    reference, reason = wanted.reference, wanted.reason
    if not 1 <= len(reference) <= REFERENCE_LENGTH_MAX or not reference.isprintable() or not reference.strip():
        return invalid("reference", f"1 to {REFERENCE_LENGTH_MAX} printable characters")
    if reference.startswith(OUR_REFERENCES) and not (wanted.of_ticket and reference.startswith(TICKET_REFERENCE)):
        return invalid("reference", f"{', '.join(OUR_REFERENCES)} begin the platform's own references; choose another")
    if len(reason) > TEXT_LENGTH_MAX or not reason.isprintable():
        return invalid("reason", f"at most {TEXT_LENGTH_MAX} printable characters")
    if not wanted.actor:
        return invalid("actor", "say who does it")
    return None


def open_epoch() -> str | None:
    """The epoch money is open under, or None: then the rebuild that opens it counts the entry we are about to write."""
    try:
        return scripts.shared_scripts().gate.renewed()
    except (GateClosed, redis.RedisError):
        return None


def bring_to_balance(pending: PendingCredit, *, epoch: str | None) -> int | None:
    """Bring one entry to the balance; the balance after it, or None if that is left to the replay.

    `epoch` was read before the pending row was, or before it was written: a rebuild of all since then has counted the
    entry, and its new epoch makes the script refuse; a rebuild that came before has left the entry's receipt. The
    receipt stands as long as the row does. All the same a row of half a day, by the database's clock, is not tried but
    counted by a rebuild of its tenant, which cannot come twice, whatever became of the receipt.
    Safe to repeat, beside itself and late.
    """
    arrived = _counted_by_rebuild([pending]) if _old_among([pending]) else _credited(pending, epoch=epoch)
    return arrived.balance_micros if isinstance(arrived, _Arrived) else None


@dataclass(frozen=True, slots=True)
class _Arrived:
    """At the balance, which is None where it cannot be read just now."""

    balance_micros: int | None


def _old_among(rows: Sequence[PendingCredit]) -> set[UUID]:
    found = PendingCredit.objects.filter(pk__in=[row.pk for row in rows], created_at__lt=Now() - REPLAY_AGE_MAX)
    return set(found.values_list("pk", flat=True))


def _credited(pending: PendingCredit, *, epoch: str | None) -> _Arrived | LimitPassed | Unavailable:
    if epoch is None:
        return Unavailable(Closed.EPOCH)
    outcome = asked_while_gated(
        lambda: scripts.shared_scripts().credit(
            tenant_id=pending.tenant_id,
            entry_id=str(pending.entry_id),
            amount_micros=pending.amount_usd_micros,
            epoch=epoch,
            counted=_where_ledger_entry_counts(pending.entry),
        )
    )
    if isinstance(outcome, Credited):
        _have_arrived([pending])
        return _Arrived(outcome.balance_micros)
    return _counted_by_rebuild([pending]) if outcome == BALANCE_LOST else outcome


def _where_ledger_entry_counts(entry: LedgerEntry) -> Counted:
    """What is given back of a run goes back to the windows of its date; what has no run counts in none."""
    return Counted(None if entry.lineage_id is None else str(entry.lineage_id), entry.spend_day)


def _counted_by_rebuild(rows: Sequence[PendingCredit]) -> _Arrived | Unavailable:
    """Of one tenant. Their entries stand in the ledger, so one rebuild that begins now brings all to the balance."""
    tenant_id = rows[0].tenant_id
    if not rebuild.try_rebuild_tenant(tenant_id):
        return BALANCE_LOST
    scripts.shared_scripts().tell(*(f"entry:{row.entry_id}" for row in rows))
    _have_arrived(rows)
    now = balance(tenant_id=tenant_id)
    return _Arrived(now.balance_micros if isinstance(now, Available) else None)


def _have_arrived(rows: Sequence[PendingCredit]) -> None:
    """First the rows go, then their receipts may."""
    PendingCredit.objects.filter(pk__in=[row.pk for row in rows]).delete()
    scripts.shared_scripts().let_credits_expire([str(row.entry_id) for row in rows])


_turn = Rotation()


@dataclass(slots=True)
class Replayed:
    """What one pass did, and what it left."""

    skipped: SkippedRows
    seen: int = 0
    applied: int = 0
    waiting: dict[str, str] = field(default_factory=dict)
    """Tenant → why its credits are left to a later pass."""
    is_closed: bool = False
    """Nobody's money moves: the pass ended there."""

    @property
    def detail(self) -> dict[str, object]:
        told: dict[str, object] = {"waits_for": "money"} if self.is_closed else {}
        if self.waiting:
            told |= {"tenants_waiting": len(self.waiting), "waiting": dict(islice(self.waiting.items(), SHOWN_MAX))}
        return told | self.skipped.detail


def replay_pending(*, limit: int, older_than: timedelta) -> Replayed:
    """Bring to the balance what a crash left behind, by the database's clock. Younger rows have a process at them.

    Tenant by tenant, in turn. One whose money cannot move now (its gate is closed, or it cannot be rebuilt) is asked
    once and left; a credit that fails is its row's alone; and behind a pass that its limit or its deadline ends the
    next one goes on with the other tenants: so nobody's credits hide another's. Where all money is closed, or Redis is
    away, nobody is asked any more.
    """
    done = Replayed(SkippedRows("pending_credits", but=(redis.RedisError,)))
    ripe = PendingCredit.objects.filter(created_at__lt=Now() - older_than)
    tenant_ids = _turn.in_turn(ripe.order_by().values_list("tenant_id", flat=True).distinct())
    if not tenant_ids:
        return done
    epoch = open_epoch()  # before any row is read that it is asked for
    if epoch is None:
        done.is_closed = True
        return done
    for tenant_id in tenant_ids:
        if done.seen >= limit or (done.seen and deadline.is_over()):
            return done
        _turn.after = tenant_id
        oldest = ripe.filter(tenant_id=tenant_id).select_related("entry").order_by("created_at")
        closed = _replay_tenant(done, list(oldest[: limit - done.seen]), epoch=epoch)
        if closed is not None:
            done.waiting[tenant_id] = closed.value
            if open_epoch() != epoch:
                done.is_closed = True
                return done
    _turn.after = ""
    return done


def _replay_tenant(done: Replayed, rows: Sequence[PendingCredit], *, epoch: str) -> Closed | None:
    """Why this tenant's money does not move now; None where its rows were tried, as many as there was time for."""
    old = _old_among(rows)
    counted = [row for row in rows if row.pk in old]
    steps = [counted] if counted else []
    for some in [*steps, *([row] for row in rows if row.pk not in old)]:
        if done.seen and deadline.is_over():
            return None
        done.seen += len(some)
        outcome: _Arrived | LimitPassed | Unavailable | None = None
        with done.skipped.each(some[0].pk):
            outcome = _counted_by_rebuild(some) if some is counted else _credited(some[0], epoch=epoch)
        if isinstance(outcome, _Arrived):
            done.applied += len(some)
        elif isinstance(outcome, LimitPassed):
            done.waiting[some[0].tenant_id] = "limit"
        elif isinstance(outcome, Unavailable):
            return outcome.closed
    return None
