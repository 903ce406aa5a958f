"""Going on with a Postgres that went back in time, where what it lost cannot be brought back.

Redis did not go back with it: its balances are what customers know. So for each tenant the ledger gets an ADJUST
of what it lacks: a top-up that was lost stays credited, a charge of a run that was lost stays charged, each once.

    entries     one ADJUST for each tenant that differs; dying before the next step leaves money closed, and asked again
                the tenants that have theirs do not differ any more
    caps        every scope is dropped, or a cap whose row was lost would go on refusing; the rebuild writes those that
                have rows. Dying after it is made good as before it
    evidence    what is missing is forgotten, and what was entered for it is left instead: should Postgres go back once
                more, that is missed too. Dying after it leaves the rebuild to the gate's watch
    rebuild     all money from the ledger there is: holds of lost runs go back, and money opens

Two things Redis cannot tell, and both are named: a tenant whose balance it does not have, or one of whose holds cannot
be read, stays as the ledger says; and a run that had ended longer ago than its receipt lives is open again, so that
what it is charged at its second end is to be given back by hand.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import redis
from django.db import transaction

from budget import ledger, solo_limit
from budget.models import LedgerEntry
from budget.money import format_usd, stored_micros
from budget.rebuild import evidence, rebuild
from budget.rebuild.evidence import MissingCommits
from budget.rebuild.rebuild import Rebuilt
from budget.redis import keys, scripts, view
from budget.redis.view import SeenMoney
from budget.verification import verify
from budget.verification.verify import DifferenceKind, Sighting
from dpp_project.audit import trail
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from tenants.models import Tenant

REFERENCE_PREFIX: Final = "ledger-loss:"


@dataclass(frozen=True, slots=True)
class TenantLoss:
    """`adjust_micros` is what the ledger lacks; None where Redis does not have the balance either, or does not say what
    is held beside it: what was on hold would be taken for a loss."""

    tenant_id: str
    adjust_micros: int | None
    open_again: tuple[str, ...]
    """Runs that are reserved in Postgres, and whose end Redis has forgotten."""


@dataclass(frozen=True, slots=True)
class Loss:
    reference: str
    missing: MissingCommits
    tenants: tuple[TenantLoss, ...]
    """Those for whom anything differs."""
    opened: bool
    """Money is open again; where another rebuild was at work it will be in seconds."""


def accept_ledger_loss(
    *, actor: str, reason: str, approved_by: str | None = None, dry_run: bool = False
) -> Loss | Refusal:
    """See the module. Key: what is missing. Raises RedisError or the database's Error; money stays closed then."""
    if not reason.strip():
        return invalid("reason", "say why the loss is accepted")
    client = scripts.shared_scripts().client
    missing = evidence.lost_commits(client)
    if not missing:
        return Refusal(ReasonCode.CONFLICT, "Postgres knows all that Redis heard of: no loss to accept", "ledger")
    reference = _ledger_loss_reference(missing)
    tenants = tuple(found for tenant_id in _tenant_ids() if (found := _compared(client, tenant_id)) is not None)
    moved_micros = sum(abs(it.adjust_micros or 0) for it in tenants)
    if approved_by is None and not dry_run and solo_limit.is_above(moved_micros):
        return Refusal(
            ReasonCode.APPROVAL_REQUIRED,
            f"its entries move {format_usd(moved_micros)} USD, and one person may move "
            f"{format_usd(solo_limit.limit_micros())}: have a second operator sign in, by --approved-by",
            "--approved-by",
        )
    if dry_run:
        return Loss(reference, MissingCommits.of(missing), tenants, opened=False)
    with transaction.atomic(durable=True):
        entry_ids = _enter(tenants, reference=reference, reason=reason, actor=actor)
        entered = {it.tenant_id: it.adjust_micros for it in tenants if it.adjust_micros}
        after = {
            "reference": reference,
            "missing": str(MissingCommits.of(missing)),
            "adjust_usd_micros": entered,
            "approved_by": approved_by,
        }
        trail.record_in_trail("ledger loss accepted", actor=actor, subject="all tenants", after=after, reason=reason)
    _drop_scopes(client)
    evidence.replace_evidence(client, missing, [f"entry:{entry_id}" for entry_id in entry_ids])
    opened = isinstance(rebuild.rebuild_all(), Rebuilt)
    return Loss(reference, MissingCommits.of(missing), tenants, opened=opened)


def _enter(tenants: Sequence[TenantLoss], *, reference: str, reason: str, actor: str) -> list[UUID]:
    """The entries there are for this loss. Without pending rows: the balances have had it all the time."""
    for tenant in tenants:
        if tenant.adjust_micros and ledger.entry_by_reference(tenant.tenant_id, reference) is None:
            LedgerEntry.objects.create(
                tenant_id=tenant.tenant_id,
                kind=LedgerEntry.Kind.ADJUST,
                amount_usd_micros=tenant.adjust_micros,
                reference=reference,
                reason=reason,
                actor=actor,
            )
    entered = LedgerEntry.objects.filter(kind=LedgerEntry.Kind.ADJUST, reference=reference)
    return list(entered.order_by("tenant_id").values_list("entry_id", flat=True)[: keys.EVIDENCE_MAX])


def _drop_scopes(client: redis.Redis) -> None:
    for name in client.scan_iter(match=keys.caps_key("*"), count=1_000):
        client.unlink(name)


def _ledger_loss_reference(missing: Sequence[str]) -> str:
    return REFERENCE_PREFIX + hashlib.sha256("\n".join(sorted(missing)).encode()).hexdigest()[:16]


def _tenant_ids() -> list[str]:
    return list(Tenant.objects.order_by("tenant_id").values_list("tenant_id", flat=True))


def _compared(client: redis.Redis, tenant_id: str) -> TenantLoss | None:
    """As `verify` does it, on money that stands still because it is closed."""
    seen = view.look_at_money(client, tenant_id)
    stands: Any = client.get(keys.balance_key(tenant_id))  # `look` answers none while all money is closed
    money = SeenMoney(seen.mark, None if seen.unreadable else stored_micros(stands), seen.holds)
    books = verify.read_books(tenant_id)
    without_hold = [run_id for run_id in books.open_runs if run_id not in money.holds]
    applied = view.applied_credits(client, [credit.entry_id for credit in books.pending])
    sighting = Sighting(money, view.seen_receipts(client, without_hold), frozenset(applied))
    found = list(verify.money_differences(books, sighting))
    if not found:
        return None
    lost = any(it.kind is DifferenceKind.BALANCE_LOST for it in found)
    adjust = sum(it.found_micros - it.expected_micros for it in found if it.kind is DifferenceKind.BALANCE)
    open_again = tuple(it.run_id for it in found if it.kind is DifferenceKind.RUN_WITHOUT_HOLD and it.run_id)
    return TenantLoss(tenant_id, None if lost else adjust, open_again)
