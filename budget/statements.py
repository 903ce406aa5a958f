"""A tenant's budget and statement. Every sum shown adds up to the micro by construction."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import redis

from budget import ledger, services
from budget.caps import reading
from budget.caps.figures import CapFigures
from budget.caps.reading import CapsStanding
from budget.ledger import Position, StatementPeriod
from budget.models import LedgerEntry, PendingCredit
from budget.outcomes import Closed, Unavailable
from budget.rebuild import rebuild
from budget.redis import scripts, view
from budget.redis.view import ScopeId, SeenCaps, SeenMoney

TRIES: Final = 20


@dataclass(frozen=True, slots=True)
class Overview:
    """credited = balance + held + charged. A charge counts from the moment it is taken."""

    credited_micros: int
    balance_micros: int
    held_micros: int
    caps: Mapping[ScopeId, Sequence[CapFigures]] = field(default_factory=dict)
    """Every window with a limit, of the scopes that were asked for."""

    @property
    def charged_micros(self) -> int:
        return self.credited_micros - self.balance_micros - self.held_micros


def money_overview(tenant_id: str, *, capped: CapsStanding | None = None) -> Overview | Unavailable:
    """Redis and the ledger as of one moment: between two looks at the same sequence.

    A tenant that was only just made has no balance yet: the first look brings it there. Holds that cannot be read are
    brought back by a rebuild before anything is shown. With `capped`, what is counted
    under those caps is of the same moment; a scope that Redis has lost is brought back first.
    """
    client = scripts.shared_scripts().client
    try:
        for _ in range(TRIES):
            seen = view.look_at_money(client, tenant_id, [] if capped is None else capped.scopes)
            if not seen.mark.is_open():
                return Unavailable(Closed.EPOCH)
            if seen.balance_micros is None:
                brought = services.balance(tenant_id=tenant_id)
                if isinstance(brought, Unavailable):
                    return brought
                continue
            mended = _mended(tenant_id, seen, capped)
            if isinstance(mended, Unavailable):
                return mended
            if mended:
                continue
            coming = _coming(client, tenant_id)
            credited = ledger.sums_of(tenant_id).credited_micros - coming
            if view.look_at_balance(client, tenant_id).mark == seen.mark:
                return Overview(credited, seen.balance_micros, seen.held_micros, _figures(capped, seen.caps))
    except redis.RedisError:
        return Unavailable(Closed.REDIS)
    return Unavailable(Closed.GATE)


def _mended(tenant_id: str, seen: SeenMoney, capped: CapsStanding | None) -> bool | Unavailable:
    """Whether holds or scopes were lost and stand again; False where none were."""
    if seen.unreadable:
        return rebuild.try_rebuild_tenant(tenant_id) or Unavailable(Closed.BALANCE)
    if capped is not None and (lost := reading.missing_caps(capped, seen.caps)):
        return reading.brought_back(tenant_id, lost) or Unavailable(Closed.CAPS)
    return False


def _figures(
    capped: CapsStanding | None, seen: Mapping[ScopeId, SeenCaps | None]
) -> Mapping[ScopeId, Sequence[CapFigures]]:
    return {} if capped is None else {scope: reading.cap_figures(capped, scope, seen[scope]) for scope in seen}


def _coming(client: redis.Redis, tenant_id: str) -> int:
    """In the ledger, and not yet at the balance."""
    rows = PendingCredit.objects.filter(tenant_id=tenant_id).values_list("entry_id", "amount_usd_micros")
    pending = {str(entry_id): micros for entry_id, micros in rows}
    applied = view.applied_credits(client, pending)
    return sum(micros for entry_id, micros in pending.items() if entry_id not in applied)


@dataclass(frozen=True, slots=True)
class StatementLine:
    entry: LedgerEntry
    balance_after_micros: int


@dataclass(frozen=True, slots=True)
class Statement:
    """Newest first: opening + the entries shown = closing, and a page's opening is the next page's closing."""

    opening_micros: int
    closing_micros: int
    lines: tuple[StatementLine, ...]
    next: Position | None


def statement_page(
    tenant_id: str, period: StatementPeriod, *, kind: str | None, after: Position | None, limit: int
) -> Statement:
    """One page. With a kind, only such entries are shown; each still says the balance after it.

    A page ends where no entry can appear behind it any more, so that the next one begins with what this one ended with.
    Where the last entry shown is younger than one that is still being written, which takes milliseconds, the page is
    read as of the moment before.
    """
    until = ledger.settled_until()
    chosen = ledger.ledger_entries(tenant_id, period, kind=kind)
    found = ledger.newest_first(chosen, after=after, limit=limit + 1)
    if len(found) > limit and found[limit - 1].created_at >= until:
        period = period.before(until)
        found = ledger.newest_first(ledger.ledger_entries(tenant_id, period, kind=kind), after=after, limit=limit + 1)
    shown = found[:limit]
    if not shown:
        closing = ledger.sums_of(tenant_id, before=period.end).total_micros if after is None else 0
        return Statement(closing, closing, (), None)
    lines = _with_balances(tenant_id, shown, gapless=kind is None)
    last = shown[-1]
    return Statement(
        opening_micros=lines[-1].balance_after_micros - last.amount_usd_micros,
        closing_micros=lines[0].balance_after_micros,
        lines=lines,
        next=(last.created_at, last.entry_id) if len(found) > limit else None,
    )


def _with_balances(tenant_id: str, shown: list[LedgerEntry], *, gapless: bool) -> tuple[StatementLine, ...]:
    """From each entry to the next by what stands between them, and from a daily sum where one ends between them.

    So no entry is added up for more than one line, however long its day was.
    """
    oldest, newest = shown[-1], shown[0]
    sums_end = () if gapless else ledger.snapshots_between(tenant_id, oldest.created_at, newest.created_at)
    balance, lines, last = ledger.balance_before(tenant_id, oldest), list[StatementLine](), oldest
    for it in reversed(shown):
        if not gapless and it is not oldest:
            starts_anew = bisect_right(sums_end, last.created_at) < bisect_right(sums_end, it.created_at)
            between = None if starts_anew else ledger.sum_between(tenant_id, last, it)
            balance = ledger.balance_before(tenant_id, it) if between is None else balance + between
        balance += it.amount_usd_micros
        lines.append(StatementLine(it, balance))
        last = it
    return tuple(reversed(lines))


def lines_oldest_first(tenant_id: str, period: StatementPeriod, *, opening_micros: int) -> Iterator[StatementLine]:
    """The whole period, read as it is taken."""
    balance = opening_micros
    for entry in ledger.oldest_first(ledger.ledger_entries(tenant_id, period)):
        balance += entry.amount_usd_micros
        yield StatementLine(entry, balance)


def opening_of(tenant_id: str, period: StatementPeriod) -> int:
    return 0 if period.start is None else ledger.sums_of(tenant_id, before=period.start).total_micros
