"""An ops cycle with one ticket of each type to work on and a stale one to reap: how it begins, and what must be true.

What a ticket does is looked for where it lands (ledger, run, key, tenant, queue), never in what the ticket says of it.
"""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from budget.entries import replay_pending
from budget.models import LedgerEntry
from budget.rebuild.gate_watch import watch_gates
from ops.tickets import reaper, services
from ops.tickets.models import OpsRunReceipt, ReaperReport, Ticket, TicketResult
from ops.tickets.processors import PROCESSORS, actor_of, reference_of
from ops.tickets.reports import LATEST_PATH
from ops.tickets.selectors import RETRY_AFTER_SECONDS
from ops.tickets.states import ENDED, RequestType, TicketStatus
from ops.tickets.transitions import REAPER_ID
from runs.bucket import storage
from runs.claims import Claim
from runs.finish.finalization import Committed, finish_claim
from runs.models import Run, RunHistory
from runs.operators import disputes
from runs.states import Stage, Status
from tenants.models import ApiKey, Tenant
from tests.gear.builders import tickets as gear
from tests.gear.builders.shop import Shop, a_request_key
from tests.gear.builders.tenants import a_key
from tests.gear.faults import scenes
from tests.gear.faults.rebuilders import lease_ran_out
from tests.gear.faults.scenes import Scene

ROUNDS: Final = 6


@dataclass
class TicketScene:
    """One ticket at its beginning, and one that nobody came back to."""

    deed: "Deed"
    shop: Shop
    ticket: Ticket
    stale: Ticket
    run: Run | None
    runs_before: set[UUID]
    receipts_before: int
    answers: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Deed:
    """What one type of ticket is asked to do, and how often that has happened (None: often is as good as once)."""

    name: str
    request_type: RequestType
    prepare: Callable[[Shop], tuple[dict[str, Any], Run | None]]
    times_done: Callable[[TicketScene], int | None]


# What they are asked to do.


def _of_tenant(shop: Shop) -> tuple[dict[str, Any], None]:
    return {"tenant_id": shop.tenant.pk}, None


def _turned_off(shop: Shop) -> tuple[dict[str, Any], None]:
    Tenant.objects.filter(pk=shop.tenant.pk).update(submits_enabled=False)
    return _of_tenant(shop)


def _money(amount: str) -> Callable[[Shop], tuple[dict[str, Any], None]]:
    return lambda shop: ({"tenant_id": shop.tenant.pk, "amount_usd": amount, "reason": "a test needs it"}, None)


def _another_key(shop: Shop) -> tuple[dict[str, Any], None]:
    return {"key": f"dpp_{a_key(shop.tenant).key.prefix}"}, None


def _letter(shop: Shop) -> tuple[dict[str, Any], Run]:
    run = scenes.probe(shop)
    return {"letter": gear.letter_of(run).pk}, run


def _run(prepare: Callable[[Shop], Run]) -> Callable[[Shop], tuple[dict[str, Any], Run]]:
    def prepared(shop: Shop) -> tuple[dict[str, Any], Run]:
        run = prepare(shop)
        return {"tenant_id": shop.tenant.pk, "run_id": str(run.run_id)}, run

    return prepared


def _disputed(shop: Shop) -> tuple[dict[str, Any], Run]:
    run = scenes.left_settled(shop)
    assert isinstance(finish_claim(Claim.stored(run, actor="worker")), Committed)
    opened = disputes.open_dispute(run_id=run.run_id, reason="it was wrong", actor="operator:ada")
    assert isinstance(opened, Run)
    return {"run_id": str(run.run_id), "reason": "it was wrong"}, opened


# Where it shows.


def _switched(*, on: bool) -> Callable[[TicketScene], int]:
    return lambda scene: int(Tenant.objects.get(pk=scene.shop.tenant.pk).submits_enabled is on)


def _entered(scene: TicketScene) -> int:
    return LedgerEntry.objects.filter(reference=reference_of(scene.ticket)).count()


def _revoked(scene: TicketScene) -> int:
    return ApiKey.objects.filter(prefix=scene.ticket.payload["key"][4:], status=ApiKey.Status.REVOKED).count()


def _canceled(scene: TicketScene) -> int:
    assert scene.run is not None
    return RunHistory.objects.filter(run_id=scene.run.run_id, actor=actor_of(scene.ticket), stage=Stage.CLAIMED).count()


def _woken(scene: TicketScene) -> int:
    """The message is in the queue, or was: its run is at work or has ended, once."""
    assert scene.run is not None
    scenes.work()
    return RunHistory.objects.filter(run_id=scene.run.run_id, status=Status.COMPLETED).count()


def _refunded(scene: TicketScene) -> int:
    assert scene.run is not None
    back = LedgerEntry.objects.filter(run_id=scene.run.run_id, kind=LedgerEntry.Kind.ADJUST)
    assert sum(entry.amount_usd_micros for entry in back) in {0, scene.run.actual_cost_usd_micros}
    return back.count()


def _any_number(_scene: TicketScene) -> None:
    return None


DEEDS: Final = (
    Deed("enable", RequestType.EXECUTION_ENABLE, _turned_off, _switched(on=True)),
    Deed("disable", RequestType.EXECUTION_DISABLE, _of_tenant, _switched(on=False)),
    Deed("top-up", RequestType.BUDGET_TOPUP, _money("1.0000"), _entered),
    Deed("adjust", RequestType.BUDGET_ADJUST, _money("-1.0000"), _entered),
    Deed("rebuild", RequestType.BUDGET_REBUILD, _of_tenant, _any_number),
    Deed("rebuild all", RequestType.BUDGET_REBUILD, lambda _shop: ({}, None), _any_number),
    Deed("revoke", RequestType.KEY_REVOKE, _another_key, _revoked),
    Deed("redrive", RequestType.DLQ_REDRIVE, _letter, _woken),
    Deed("cancel while queued", RequestType.RUN_CANCEL, _run(scenes.probe), _canceled),
    Deed("cancel at work", RequestType.RUN_CANCEL, _run(scenes.at_work), _canceled),
    Deed("refund", RequestType.DISPUTE_REFUND, _disputed, _refunded),
)


def begin(deed: Deed, shop: Shop) -> TicketScene:
    Tenant.objects.filter(pk=shop.tenant.pk).update(submits_enabled=True)
    runs_before = set(Run.objects.filter(tenant=shop.tenant).values_list("run_id", flat=True))
    payload, run = deed.prepare(shop)
    if run is not None and run.finalize_stage == Stage.COMMITTED:
        runs_before.add(run.run_id)  # it has ended: what its ticket does to it, the deed counts itself
    ticket = gear.opened(deed.request_type, payload)
    if PROCESSORS[deed.request_type].dangerous:
        assert isinstance(services.approve_ticket(request_id=ticket.pk, by="operator:bob"), Ticket)
    stale = gear.stale(request_type=RequestType.KEY_REVOKE, payload={"key": "dpp_a1b2c3d4"})
    return TicketScene(deed, shop, gear.row(ticket.pk), stale, run, runs_before, OpsRunReceipt.objects.count())


def act(scene: TicketScene) -> Any:
    """One cycle; answers the key of its receipt."""
    reports_take_their_turns()
    return gear.run_cycle().pk


# Time.


class Seconds:
    """Each look is in a second of its own, so that no report waits for the next."""

    def __init__(self) -> None:
        self._seconds = itertools.count()

    def now(self) -> datetime:
        at = datetime(2026, 3, 1, 12, 0, 0, 999_999, tzinfo=UTC)
        return at + timedelta(seconds=next(self._seconds))


SECONDS: Final = Seconds()


@pytest.fixture
def quick_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaper, "clock", SECONDS)


def reports_take_their_turns() -> None:
    """A dead process's look at the clock is forgotten with it: go on after the last second that was used."""
    last = ReaperReport.objects.first()
    while last is not None and SECONDS.now() <= last.asof:
        pass


# Afterwards.


def left(scene: TicketScene, *, seconds: int) -> None:
    """So much time passes for what is in progress."""
    ticket = gear.row(scene.ticket.pk)
    if ticket.status == TicketStatus.IN_PROGRESS:
        gear.aged(ticket, seconds=seconds)


def resumed(scene: TicketScene) -> None:
    """The cycle comes again, as often as five minutes pass."""
    _until_ended(scene, seconds=RETRY_AFTER_SECONDS + 1)


def reaped(scene: TicketScene) -> None:
    """Nobody comes for a day; then the cycle, with its reaper first."""
    _until_ended(scene, seconds=gear.DAY_SECONDS + 60)


ENDINGS: Final = (resumed, reaped)


def everybody_recovers(scene: TicketScene) -> None:
    """Runs and money that the deed has touched come to their end."""
    run = scene.run or Run(run_id=UUID(int=0))
    lease_ran_out()
    watch_gates(limit=10)
    replay_pending(limit=100, older_than=timedelta())
    scenes.recover(Scene(scene.shop, a_request_key(), run, scene.runs_before), scenes.ORDERS[1])


def _until_ended(scene: TicketScene, *, seconds: int) -> None:
    for _ in range(ROUNDS):
        left(scene, seconds=seconds)
        lease_ran_out()
        watch_gates(limit=10)
        scene.answers.append(act(scene))
        if gear.row(scene.ticket.pk).status in ENDED:
            break
    everybody_recovers(scene)


def holds_true(scene: TicketScene, *, ending: Callable[[TicketScene], None]) -> None:
    """Each ticket has ended once, its deed was done once, every micro has its place, and the papers are whole."""
    deed_done_once(scene)
    cleaned = TicketResult.objects.get(ticket_id=scene.stale.pk)
    assert (cleaned.status, cleaned.processor_id) == ("FAILED", REAPER_ID)
    if ending is resumed:
        found = TicketResult.objects.get(ticket_id=scene.ticket.pk)
        assert found.status == TicketStatus.DONE, found.message
    _papers_are_whole(scene)


def deed_done_once(scene: TicketScene) -> None:
    ticket, results = gear.row(scene.ticket.pk), TicketResult.objects.filter(ticket_id=scene.ticket.pk)
    assert (ticket.status in ENDED, results.count(), results.get().status) == (True, 1, ticket.status), ticket
    times = scene.deed.times_done(scene)
    if ticket.status == TicketStatus.DONE:
        assert times in {1, None}, times
    assert times in {0, 1, None}, times
    run = scene.run or Run(run_id=UUID(int=0))
    scenes.holds_true(Scene(scene.shop, a_request_key(), run, scene.runs_before), None)


def _papers_are_whole(scene: TicketScene) -> None:
    told = [answer for answer in scene.answers if answer is not None]
    assert OpsRunReceipt.objects.filter(pk__in=told).count() == len(told)
    assert OpsRunReceipt.objects.count() >= scene.receipts_before + len(told)
    validator = gear.validator("ticket_reaper_report_v1")
    reports = list(ReaperReport.objects.all())
    for report in reports:
        assert report.published_at is not None, report
        assert _stored(report.snapshot_path) == report.content
        validator.validate(json.loads(report.content))
    assert _stored(LATEST_PATH) == reports[0].content, "the newest is the latest"
    cleaned = [one["request_id"] for report in reports for one in json.loads(report.content)["cleaned_items"]]
    assert cleaned.count(str(scene.stale.pk)) == 1
    ReaperReport.objects.exclude(pk=reports[0].pk).delete()


def _stored(path: str) -> str:
    return storage.shared_run_storage().read(path, max_bytes=1_000_000).decode()
