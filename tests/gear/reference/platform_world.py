"""The whole platform in process, one tenant with two keys, and what must be true of it after every step.

Time is the rows' and the keys' age: to let it pass, everything grows older by so much. Days are the dates that accepts
are given: tomorrow is a process that has met it already, and a clock that goes back one that has not.
"""

import itertools
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import F
from django.test import TransactionTestCase

from budget import entries
from budget.caps import enforcing, setting
from budget.caps.setting import CapsSet
from budget.models import LedgerEntry, PendingCredit
from budget.money import parse_usd
from budget.outcomes import Held, HoldOutcome
from budget.rebuild import gate_watch, rebuild
from budget.rebuild.lease import LEASE_SECONDS
from budget.redis import keys, scripts, view
from budget.redis.view import SeenCaps
from budget.redis.windows import PERIODS, CapPeriod, Counted
from budget.verification import verify
from budget.verification.verify import Difference
from dpp_project import clock
from dpp_project.aws import clients, queue_depth, receipt_handles
from dpp_project.jobs.registry import RunOnce
from dpp_project.settings import ENV
from dpp_project.stores import redis
from reaper import (
    claim_reconciler,
    dead_letters,
    hold_auditor,
    lease_reaper,
    message_parser,
    requeuer,
    reservation_sweeper,
    retention,
)
from runs.box.outcomes import Done, PackOutcome
from runs.intents import FREES_ITS_KEY
from runs.models import Run
from runs.operators import disputes
from runs.reads import for_tenant
from runs.states import MoneyState, Stage, Status
from runs.submit import spend_dates, wake_worker
from runs.submit.wake_worker import Wakeup
from runs.worker import execution
from runs.worker.leases import WakingMessage
from tenants import authentication
from tenants import services as tenants
from tenants.models import SpendCap, Tenant
from tests.gear import truncation
from tests.gear.builders import recovery
from tests.gear.builders.shop import Shop, a_body, a_request_key, a_shop
from tests.gear.builders.tenants import a_key
from tests.gear.faults.interruption import Interruption, beside, interrupted

LOOPS: Final[dict[str, RunOnce]] = {
    "lease_reaper": lease_reaper.reap_leases,
    "reservation_sweeper": reservation_sweeper.sweep_reservations,
    "claim_reconciler": claim_reconciler.reconcile_claims,
    "requeuer": requeuer.requeue_runs,
    "hold_auditor": hold_auditor.audit_holds,
    "dead_letters": dead_letters.consume_dead_letters,
    "retention": retention.expire_runs,
}
IN_PROGRESS: Final = {(409, "IDEMPOTENCY_IN_PROGRESS")}
LATER: Final = IN_PROGRESS | {(503, "BUDGET_UNAVAILABLE"), (503, "QUEUE_ENQUEUE_FAILED")}
ROUNDS: Final = 8

_TRUTH: Final = """
SELECT run_id, idempotency_key, status, money_state, finalize_stage, actual_cost_usd_micros,
       reservation_max_cost_usd_micros, intent_charge_usd_micros, last_error_reason_code,
       (SELECT count(*) FROM run_history h WHERE h.run_id = r.run_id AND h.stage = 'COMMITTED'),
       (SELECT count(*) FROM run_history h
         WHERE h.run_id = r.run_id AND h.status = 'PROCESSING' AND h.stage IS NULL),
       (SELECT count(*) FROM run_disputes d WHERE d.run_id = r.run_id),
       (SELECT count(*) FROM ledger_entries l WHERE l.run_id = r.run_id AND kind = 'CHARGE'),
       (SELECT coalesce(-sum(amount_usd_micros), 0)::bigint FROM ledger_entries l
         WHERE l.run_id = r.run_id AND coalesce(reference, '') NOT LIKE 'dispute:%%'),
       (SELECT coalesce(sum(amount_usd_micros), 0)::bigint FROM ledger_entries l
         WHERE l.run_id = r.run_id AND reference LIKE 'dispute:%%')
  FROM runs r WHERE tenant_id = %s
"""
_ENTERED_ELSEWHERE: Final = """
SELECT entry_id FROM ledger_entries l JOIN runs r USING (run_id)
 WHERE r.tenant_id = %s AND (l.lineage_id, l.spend_day) IS DISTINCT FROM (r.lineage_id, r.spend_day)
"""
EASTERNMOST: Final = "Pacific/Kiritimati"
WESTERNMOST: Final = "Etc/GMT+12"


@dataclass(frozen=True)
class Truth:
    """All that Postgres says of one run's end and of its money."""

    run_id: UUID
    key: str | None
    status: str
    money_state: str
    stage: str | None
    actual: int | None
    reserved: int
    intended: int | None
    reason: str | None
    commits: int
    starts: int
    dispute_steps: int
    charges: int
    taken: int
    given_back: int


@dataclass
class Request:
    """What a customer sent under one key, and the first receipt for it."""

    key: str
    price: str
    shop: Shop
    receipt: Any = None


class Pack:
    """The box of a worker: what comes of the pack, and what happens elsewhere while it works."""

    def __init__(self) -> None:
        self.outcome: PackOutcome = Done(data={"answer": 1}, artifacts=(), spent_micros=1, tokens=1)
        self.meanwhile: Callable[[], object] | None = None

    def start(self, *_: object, **__: object) -> "Pack":
        return self

    def wait(self) -> PackOutcome:
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()
        return self.outcome

    def stop(self) -> None:
        """It is over before anybody could."""


@dataclass
class World:
    """Fresh for each day of the machine."""

    pack: Pack
    shop: Shop = field(init=False)
    second: Shop = field(init=False)
    """The same tenant's, with another key."""
    met: Counter[str] = field(default_factory=Counter)
    """What holds and submits were answered."""
    enforced: dict[str | None, int] = field(default_factory=dict)
    """By scope: the newest revision that was answered to be in force."""
    may_be_absent: set[str | None] = field(default_factory=set)
    """Scopes that were lost by themselves, or whose change was not answered to be in force."""
    passed: list[Any] = field(default_factory=list)
    """What holds got past, and should not have."""
    dates: dict[UUID, date] = field(default_factory=dict)
    """Of each run whose money was held."""
    latest: date = date.min
    requests: list[Request] = field(default_factory=list)
    ended: dict[UUID, tuple[str, int]] = field(default_factory=dict)
    image: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    sent: "itertools.count[int]" = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        truncation.empty_tables(TransactionTestCase())
        redis.redis_client().flushall()
        scripts.forget_scripts()
        authentication.memory.forget()
        recovery.empty_queues()
        rebuild.rebuild_all()
        self.shop = a_shop()
        self.second = Shop(self.shop.tenant, a_key(self.shop.tenant), self.shop.client)

    # Who acts. Each may be interrupted anywhere.

    def act(self, action: Callable[[], Any], interruption: Interruption | None) -> Any:
        """Its answer; None where it died."""
        if interruption is None:
            return action()
        answer = None
        with interrupted(interruption):
            answer = action()
        if interruption.dead:
            self.forget_dates()
        return None if interruption.dead else answer

    def submit(self, request: Request) -> None:
        """Every answer is one of the promised ones, and the second receipt is the first."""
        response = request.shop.submit(a_body(reservation={"max_cost_usd": request.price}), key=request.key)
        told = (response.status_code, response.json().get("reason_code"))
        if response.status_code == 202:
            assert request.receipt in {None, response.content}, (request, response.content)
            request.receipt = response.content
        elif told == (410, "GONE"):  # between its retention and the pass that makes a tombstone of it
            assert for_tenant.is_gone(Run.objects.get(tenant_id=self.tenant_id, idempotency_key=request.key)), request
        elif request.receipt is not None:
            assert told in IN_PROGRESS | {(503, "BUDGET_UNAVAILABLE")}, (request, told)
        elif told == (402, "SPEND_CAP_REACHED"):
            self.met["refused by a cap"] += 1
            self._refused(request, response.json()["cap"])
        else:
            assert told in LATER | {(402, "BUDGET_DRAINED")}, (request, told)

    def new_request(self, price: str) -> Request:
        """Every third is the second key's."""
        shop = self.second if len(self.requests) % 3 == 2 else self.shop
        self.requests.append(Request(a_request_key(), price, shop))
        return self.requests[-1]

    def _refused(self, request: Request, cap: Mapping[str, int]) -> None:
        """For want of room, and nothing stays of it."""
        left = max(0, cap["limit_usd_micros"] - cap["used_usd_micros"] - cap["held_usd_micros"])
        assert cap["left_usd_micros"] == left < parse_usd(request.price), (request, cap)
        assert not Run.objects.filter(tenant_id=self.tenant_id, idempotency_key=request.key).exists(), request

    def deliver(self) -> None:
        """One message, from the queue to its deletion. A worker that dies leaves it there."""
        found = (
            clients.sqs_client()
            .receive_message(QueueUrl=ENV.DPP_QUEUE_URL, MaxNumberOfMessages=1, VisibilityTimeout=0)
            .get("Messages", [])
        )
        for message in found:
            letter = message_parser.parse_message(message["Body"])
            assert letter is not None
            held = WakingMessage(queue_url=ENV.DPP_QUEUE_URL, receipt=message["ReceiptHandle"])
            if Run.objects.filter(run_id=letter.run_id).exists():
                execution.execute_run(letter.run_id, message=held)
            receipt_handles.delete_receipts(ENV.DPP_QUEUE_URL, [message["ReceiptHandle"]])

    def execute_again(self, run_id: UUID) -> None:
        """A message delivered twice, or very late."""
        if Run.objects.filter(run_id=run_id).exists():
            execution.execute_run(run_id, message=None)

    def send_again(self, run: Run) -> None:
        wake_worker.send_wakeup(Wakeup.of(run))

    def bury(self, run: Run) -> None:
        """Its message, after three receives that nobody finished."""
        clients.sqs_client().send_message(QueueUrl=ENV.DPP_DLQ_URL, MessageBody=Wakeup.of(run).message().body)

    def cancel(self, run_id: UUID) -> None:
        assert self.shop.cancel(str(run_id)).status_code in {200, 202, 404, 409, 410}

    def top_up(self, micros: int) -> None:
        entered = entries.top_up(
            tenant_id=self.tenant_id,
            amount_micros=micros,
            reference=f"top-up {next(self.sent)} {secrets.token_hex(4)}",
            reason="",
            actor="test",
        )
        assert isinstance(entered, entries.Entered)

    def dispute(self, run: Run, step: str) -> None:
        ask = {"open": disputes.open_dispute, "uphold": disputes.uphold_dispute, "refund": disputes.refund_dispute}[
            step
        ]
        ask(run_id=run.run_id, reason="the machine says so", actor="operator:test")

    # Caps.

    def scopes(self) -> list[str | None]:
        return [None, *(str(shop.issued.key.lineage_id) for shop in (self.shop, self.second))]

    def set_caps(self, scope: str | None, changes: Mapping[CapPeriod, int | None]) -> None:
        """Where it dies, nobody knows what is in force: the row, or what was before."""
        self.may_be_absent.add(scope)
        answer = setting.set_caps(
            tenant_id=self.tenant_id,
            lineage_id=None if scope is None else UUID(scope),
            changes=changes,
            actor="test",
        )
        assert isinstance(answer, CapsSet)
        if answer.enforced and answer.revision > 0:
            self.enforced[scope] = max(answer.revision, self.enforced.get(scope, 0))
            self.may_be_absent.discard(scope)
        if answer.revision == 1:
            # A process that has never heard of a cap would pass it where the scope is lost as well.
            authentication.memory.forget()

    def lose_caps(self, scope: str | None) -> None:
        self.may_be_absent.add(scope)
        self.met["caps keys lost"] += bool(redis.redis_client().delete(keys.caps_key(self.tenant_id, scope)))

    def move_date(self, how: str) -> None:
        """Days later, as a process knows who has met them; or back to the database's own; or the zone moves it."""
        if how in {"east", "west"}:
            zone = EASTERNMOST if how == "east" else WESTERNMOST
            changed = tenants.change_budget_settings(tenant_id=self.tenant_id, changes={"zone": zone}, actor="test")
            assert isinstance(changed, Tenant)
            return
        self.forget_dates()
        if how != "back":
            days = {"midnight": 1, "a week": 7, "a month": 31}[how]
            self.latest = max(self.latest, clock.now().date()) + timedelta(days=days)
            spend_dates.latest.note(self.tenant_id, self.latest)

    def forget_dates(self) -> None:
        """As a new process, which knows only what the database says."""
        spend_dates.latest._dates.clear()

    def watch_hold(self, hold: Callable[..., HoldOutcome], values: Mapping[str, Any]) -> HoldOutcome:
        """What was held lies within every limit in force, and nothing that was in force is not there."""
        outcome = hold(**values)
        self.met[type(outcome).__name__] += 1
        if isinstance(outcome, Held):
            # On another thread: looking is no effect of the action that is watched.
            beside(lambda: self.passed.extend(self._passed(values["counted"])))
        return outcome

    def _passed(self, counted: Counted) -> Iterator[Any]:
        """What a hold that stands now should not have got past."""
        for scope in {None, counted.lineage_id}:
            seen = self.seen_caps(scope)
            if seen is None or seen.revision < self.enforced.get(scope, 0):
                if scope in self.enforced:
                    yield scope, self.enforced[scope], seen
                continue
            if seen.day != counted.day:
                yield scope, counted, seen
            for period in PERIODS:
                limit = seen.limits[period]
                if limit is not None and seen.counted[period] > limit:
                    yield scope, period, seen

    def seen_caps(self, scope: str | None) -> SeenCaps | None:
        return view.look_at_caps(scripts.shared_scripts().client, self.tenant_id, scope)

    def run_loop(self, name: str) -> None:
        if name == "watch":
            gate_watch.watch_gates(limit=10)
        elif name == "pending":
            entries.replay_pending(limit=100, older_than=timedelta())
        elif name != "dead_letters" or any(queue_depth.queue_depth_of(ENV.DPP_DLQ_URL)):
            recovery.run_loop(LOOPS[name])

    # What happens by itself.

    def pass_time(self, seconds: int) -> None:
        """Everything is so much older; what that makes due is done by whoever comes next."""
        by = timedelta(seconds=seconds)
        Run.objects.exclude(finalize_stage=Stage.COMMITTED).update(
            **{
                column: F(column) - by
                for column in (
                    "created_at",
                    "updated_at",
                    "lease_expires_at",
                    "finalize_claimed_at",
                    "next_send_at",
                )
            }
        )
        client = redis.redis_client()
        for key in client.scan_iter():
            left: Any = client.ttl(key)
            if left >= 0:
                client.expire(key, left - seconds)  # at once, if that is the past

    def pass_retention(self, run: Run) -> None:
        Run.objects.filter(run_id=run.run_id, finalize_stage=Stage.COMMITTED).update(
            retention_until=F("created_at") - timedelta(seconds=1)
        )

    def flush(self) -> None:
        redis.redis_client().flushall()

    def save_image(self) -> None:
        client = redis.redis_client()
        raw = _raw()
        self.image = {str(key): (raw.dump(key), max(0, raw.pttl(key))) for key in client.scan_iter()}

    def restore_image(self) -> None:
        """Of another server: connections are new, and look at the epoch first."""
        if not self.image:
            return
        client, raw = redis.redis_client(), _raw()
        client.flushall()
        for key, (content, left) in self.image.items():
            raw.restore(key, left, content)
        epoch: Any = client.get(keys.EPOCH)
        if epoch is not None:
            client.set(keys.EPOCH, f"{'b' * 40}.{str(epoch).rpartition('.')[2]}")
        scripts.forget_scripts()
        redis.disconnect_redis()

    # What must be true after every step.

    @property
    def tenant_id(self) -> str:
        return self.shop.tenant.tenant_id

    def truths(self) -> list[Truth]:
        with connection.cursor() as cursor:
            cursor.execute(_TRUTH, [self.tenant_id])
            return [Truth(*row) for row in cursor.fetchall()]

    def holds_true(self) -> None:
        """One end, one charge, the bill what was taken, what was read stays; and not a micro is missing."""
        assert self.passed == [], f"a hold is past what was in force: {self.passed}"
        rows = {row.run_id: row for row in self.truths()}
        for row in rows.values():
            _one_end_one_charge(row)
            if row.stage == Stage.COMMITTED:
                status, actual = self.ended.setdefault(row.run_id, (row.status, row.actual or 0))
                assert (row.status in {status, Status.EXPIRED}, row.actual) == (True, actual), (row, status, actual)
        assert set(self.ended) <= set(rows)
        self._receipts_are_kept(rows.values())
        self._dates_are_kept()
        if not self.money_is_closed():
            proof = verify.verify_tenant_money(self.tenant_id)
            assert proof.is_told, proof
            assert [it for it in proof.differences if not self._may_be(it)] == [], proof
            self.may_be_absent -= {scope for scope in self.may_be_absent if self.seen_caps(scope) is not None}

    def _may_be(self, difference: Difference) -> bool:
        """A scope that is lost is found by the next hold under it, or by whoever verifies."""
        return difference.where in {f"{scope or 'tenant'}: lost" for scope in self.may_be_absent}

    def _dates_are_kept(self) -> None:
        """A run's date stands once its money was held, and its entries have the run's date and key."""
        held = Run.objects.filter(tenant_id=self.tenant_id).exclude(money_state=MoneyState.NONE)
        for run_id, day in held.values_list("run_id", "spend_day"):
            assert day is not None
            assert self.dates.setdefault(run_id, day) == day, run_id
        with connection.cursor() as cursor:
            cursor.execute(_ENTERED_ELSEWHERE, [self.tenant_id])
            assert cursor.fetchall() == []

    def money_is_closed(self) -> bool:
        """By the gate of all or by the tenant's own, which a rebuild that died leaves behind: nothing moves."""
        frame = view.look_at_money(scripts.shared_scripts().client, self.tenant_id)
        return not frame.mark.is_open() or frame.mark.gate is not None

    def _receipts_are_kept(self, rows: Iterable[Truth]) -> None:
        by_key: dict[str, Truth] = {row.key: row for row in rows if row.key is not None}
        ids = {str(row.run_id): row for row in rows}
        for request in self.requests:
            if request.receipt is None:
                continue
            found = by_key.get(request.key)
            named = next((row for run_id, row in ids.items() if run_id.encode() in request.receipt), None)
            assert named is not None, request
            assert named.status == Status.EXPIRED or named == found, (request, named, found)
            assert named.reason not in FREES_ITS_KEY, named

    # The end of the day.

    def come_to_rest(self) -> None:
        """Everybody recovers while time passes; then nothing is open, held or on its way, and every micro is there."""
        for _ in range(ROUNDS):
            if not self._unrest():
                break
            self.pass_time(3_601)
            for name in ("watch", "pending", *LOOPS):
                self.run_loop(name)
            while any(queue_depth.queue_depth_of(ENV.DPP_QUEUE_URL)):
                self.deliver()
        left = self._unrest()
        assert not left, f"stuck: {left}"
        self.pass_time(LEASE_SECONDS)  # that of a rebuild which died, and kept a lost scope from being counted
        for row in SpendCap.objects.filter(tenant_id=self.tenant_id):
            assert enforcing.put_in_force(row), row
        self.holds_true()
        self._counters_are_those_of_the_books()
        frame = view.look_at_money(scripts.shared_scripts().client, self.tenant_id)
        assert frame.holds == {}
        entries = LedgerEntry.objects.filter(tenant_id=self.tenant_id).values_list("amount_usd_micros", flat=True)
        assert frame.balance_micros == sum(entries)
        recovery.law_holds(self.shop.tenant)

    def _counters_are_those_of_the_books(self) -> None:
        """Nothing is held, so what is counted was charged; and a rebuild, which counts anew, comes to the same."""

        def ever() -> list[tuple[str | None, int, int]]:
            found = ((scope, self.seen_caps(scope)) for scope in self.scopes())
            return [(scope, seen.revision, seen.used["total"]) for scope, seen in found if seen is not None]

        for scope in self.scopes():
            seen = self.seen_caps(scope)
            assert seen is None or seen.counted == seen.used, (scope, seen)
        before = ever()
        rebuild.rebuild_all()
        assert ever() == before

    def _unrest(self) -> list[Any]:
        still_open = Run.objects.exclude(finalize_stage=Stage.COMMITTED).values_list(
            "run_id", "status", "money_state", "finalize_stage"
        )
        pending = PendingCredit.objects.values_list("entry_id", "amount_usd_micros")
        found: list[Any] = [*still_open, *pending]
        if self.money_is_closed():
            found.append("money is closed")
        return found


def _one_end_one_charge(row: Truth) -> None:
    if row.stage != Stage.COMMITTED:
        assert (row.commits, row.charges, row.taken, row.actual) == (0, 0, 0, None), row
        return
    if row.status != Status.EXPIRED:  # its earlier history is gone
        assert row.commits == 1 + row.dispute_steps, row
        assert row.starts <= 1, row
    assert row.charges <= 1, row
    assert row.taken == row.actual, row
    assert row.actual <= (row.intended or 0) <= row.reserved, row
    if row.money_state == MoneyState.REFUNDED:
        assert row.taken == row.given_back, row
    else:
        assert row.given_back == 0, row


def _raw() -> Any:
    """What DUMP answers is no text."""
    import redis as library

    return library.Redis.from_url(ENV.REDIS_URL)
