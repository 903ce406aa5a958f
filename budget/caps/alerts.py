"""cap.reached: webhooks hear when half, four fifths and all of a cap is spent. One message of each for a window.

Half and four fifths are of what runs were charged: a job looks, since a settle is a script in Redis and no statement in
Postgres. All of it is a refusal, and the refusal writes the message. What runs under way may still cost counts against
a cap, so a refusal may come before half of it is charged; its message says `refusing`, with what is used beside it, and
those of half and four fifths follow all the same.

A change of the caps begins anew. A window that has ended gets no message any more, so what is spent in its last seconds
may go without one.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import date, datetime
from threading import Lock
from typing import Any, Final

import structlog
from django.db import connection, transaction

from budget.caps.figures import CapFigures, CapScope
from budget.outcomes import CapReached
from budget.redis import view
from budget.redis.view import SeenCaps
from budget.redis.windows import PERIODS, CapPeriod, cap_window, date_number
from dpp_project.jobs import deadline
from dpp_project.jobs.models import JobReport
from dpp_project.jobs.registry import PassReport
from dpp_project.jobs.skipped_rows import SkippedRows
from dpp_project.processes.per_process import PerProcess
from dpp_project.stores import redis
from tenants.webhooks import cap_reached
from tenants.webhooks.cap_reached import CappedScope

log = structlog.get_logger("dpp.budget")

JOB: Final = "cap_alerts"
OF_THE_USED: Final = (50, 80)
REFUSING: Final = 100
AT_ONCE: Final = 500
REMEMBERED: Final = 10_000
REMEMBERED_NANOSECONDS: Final = 30_000_000_000


class ToldLately:
    """What this process has sent, or found sent, in the last half minute; of very much the oldest goes first.

    Not for longer: caps may be changed to and fro meanwhile, and the last change gets a message of its own.
    """

    def __init__(self, *, now: Callable[[], int] = time.monotonic_ns) -> None:
        self._now = now
        self._lock = Lock()
        self._at: OrderedDict[Hashable, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._at)

    def knows(self, what: Hashable) -> bool:
        at = self._at.get(what)
        return at is not None and self._now() - at < REMEMBERED_NANOSECONDS

    def remember(self, what: Hashable) -> None:
        with self._lock:
            self._at[what] = self._now()
            self._at.move_to_end(what)
            if len(self._at) > REMEMBERED:
                self._at.popitem(last=False)


@PerProcess
def told_lately() -> ToldLately:
    return ToldLately()


def tell_full(*, tenant_id: str, lineage_id: str | None, reached: CapReached) -> None:
    """Write that a cap has refused a run, once for each window. Never fails: the refusal is answered all the same.

    In the transaction that drops the run's row the message commits with it. Without a transaction, where no row was
    made, this asks Postgres once in half a minute for each window. After a failure the next refusal writes it.
    """
    whose = lineage_id if reached.scope == "key" else None
    what = (tenant_id, whose, reached.period, _window(reached.day, reached.period), reached.limit_micros)
    beside_a_row = connection.in_atomic_block
    if not beside_a_row and told_lately().knows(what):
        return
    try:
        with transaction.atomic():  # in the caller's transaction a savepoint: what fails here leaves that whole
            _tell_full(cap_reached.scope_with_caps(tenant_id=tenant_id, lineage_id=whose), reached)
    except Exception as error:  # Postgres is away, or ends this statement
        log.warning("not told that a cap was reached", tenant_id=tenant_id, lineage_id=whose, exc_info=error)
        return
    if not beside_a_row:
        told_lately().remember(what)


def _tell_full(scope: CappedScope | None, reached: CapReached) -> None:
    """Only of a limit that stands: one that was changed since has refused by what is no more."""
    if scope is not None and scope.limits[reached.period] == reached.limit_micros:
        _tell_cap_alert(
            scope,
            REFUSING,
            CapFigures(
                reached.scope,
                reached.period,
                reached.day,
                scope.zone,
                reached.limit_micros,
                reached.used_micros,
                reached.held_micros,
            ),
        )


def raise_cap_alerts(*, now: datetime, limit: int) -> PassReport:
    """Looks at every scope with limits, and begins where the last pass had to end. Two at once write one message."""
    del now
    seen = changed = unknown = 0
    after, skipped = _left_at(), SkippedRows(JOB)
    while seen < limit and not deadline.is_over():
        scopes = cap_reached.scopes_with_caps(after=after, limit=min(AT_ONCE, limit - seen))
        if not scopes:
            after = None
            break
        after = scopes[-1].cap_id
        for scope, caps in zip(scopes, _seen_caps_for_alerts(scopes), strict=True):
            seen += 1
            if caps is None:
                unknown += 1
            else:
                with skipped.each(scope.cap_id):
                    changed += _tell_used(scope, caps)
    detail = {"unknown": unknown, "after": after, **skipped.detail}
    return PassReport(seen=seen, changed=changed, errors=skipped.errors, detail=detail)


def _left_at() -> str | None:
    """Behind which scope the last pass ended; None where it came to the last one."""
    reports = JobReport.objects.filter(job=JOB, ended_at__isnull=False, dry_run=False, detail__has_key="after")
    after: str | None = reports.order_by("-started_at").values_list("detail__after", flat=True).first()
    return after


def _seen_caps_for_alerts(scopes: list[CappedScope]) -> list[SeenCaps | None]:
    """None where what is spent is not known: money is closed, the tenant's is being rebuilt, or the scope is lost."""
    with redis.redis_client().pipeline(transaction=False) as pipe:
        for scope in scopes:
            view.queue_balance(pipe, scope.tenant_id)
            view.queue_caps(pipe, scope.tenant_id, scope.lineage_id)
        answers = pipe.execute()
    marks = [view.seen_balance(answer).mark for answer in answers[::2]]
    return [
        view.seen_caps(answer) if mark.is_open() and mark.gate is None else None
        for mark, answer in zip(marks, answers[1::2], strict=True)
    ]


def _tell_used(scope: CappedScope, caps: SeenCaps) -> int:
    """How many messages it wrote, of windows that go on. The limits are the row's: they are what its revision says."""
    told = 0
    whose: CapScope = "tenant" if scope.lineage_id is None else "key"
    for period in PERIODS:
        limit, day = scope.limits[period], caps.day
        if not limit or day is None or _has_ended(day, period, scope.today):
            continue
        used, held = caps.used[period], caps.counted[period] - caps.used[period]
        for percent in OF_THE_USED:
            if used * 100 >= limit * percent:
                told += _tell_cap_alert(scope, percent, CapFigures(whose, period, day, scope.zone, limit, used, held))
    return told


def _tell_cap_alert(scope: CappedScope, percent: int, figures: CapFigures) -> bool:
    period, its_window = figures.period, figures.window
    if scope.was_told(period=period, window=its_window, percent=percent):
        return False
    return scope.tell(period=period, window=its_window, percent=percent, payload=_payload(percent, figures))


def _payload(percent: int, figures: CapFigures) -> dict[str, Any]:
    href = "/v1/budget" if figures.scope == "tenant" else "/v1/keys"
    return {**figures.document(), "percent": percent, "refusing": percent == REFUSING, "href": href}


def _window(day: date, period: CapPeriod) -> str:
    return cap_window(date_number(day), period)


def _has_ended(day: date, period: CapPeriod, today: date) -> bool:
    return day < today and _window(day, period) < _window(today, period)
