"""Many runs in one process: what they share is made once, and none of it is used by two at a time (DPP-27, DPP-31)."""

import gc
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import pytest
from django.db import connection, connections
from redis import Redis

from budget.rebuild import rebuild
from dpp_project.aws import clients
from dpp_project.processes.per_process import PerProcess
from dpp_project.stores.postgres import BoundedConnection
from runs import tasks
from runs.box.box import Box
from runs.bucket import storage
from runs.cancel import cancellation
from runs.models import Run
from runs.states import Stage, Status
from runs.worker import execution, leases
from runs.worker.execution import End
from runs.worker.leases import Keeper
from tenants.models import Tenant
from tests.gear.builders import recovery, work
from tests.gear.builders import runs as gear
from tests.gear.builders.box import MODULE, a_job, begin
from tests.gear.builders.packs import PackLog
from tests.gear.waiting import wait_until
from tests.proving import proofs

if TYPE_CHECKING:
    from django.db.backends.postgresql.base import DatabaseWrapper

SLOTS = 4
LIVES = 24


@pytest.fixture
def tenant(valkey: Redis, aws: str, transactional_db: None, worker_here: Box) -> Tenant:
    rebuild.rebuild_all()
    return recovery.funded()


@pytest.fixture
def two_connections(tenant: Tenant) -> Iterator[None]:
    """One is this test's own, so that all slots and the keeper must do with the other."""
    pool = connections.settings["default"]["OPTIONS"]["pool"]
    before = dict(pool)
    try:
        pool.update(max_size=2, timeout=5)
        _reconnect()
        yield
    finally:
        pool.update(before)
        _reconnect()


def _reconnect() -> None:
    connections.close_all()
    cast("DatabaseWrapper", connection).close_pool()


def _nobody_keeps_a_connection() -> bool:
    pool = cast("DatabaseWrapper", connection).pool
    assert pool is not None
    stats: dict[str, int] = pool.get_stats()
    return 0 < stats["pool_size"] == stats.get("pool_available")


def carried_out(runs: list[Run], *, slots: int) -> tuple[ThreadPoolExecutor, list[Any]]:
    """As a worker's slots do it, each run's connection given back at the end."""

    def one(run: Run) -> End:
        try:
            return work.execute(run)
        finally:
            connections.close_all()

    executor = ThreadPoolExecutor(slots, thread_name_prefix="slot")
    return executor, [executor.submit(one, run) for run in runs]


@pytest.mark.contract("DPP-27", "DPP-31")
def test_dpp_31_more_packs_at_work_than_connections_are_renewed_and_hear_a_cancel(
    tenant: Tenant, two_connections: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With each slot holding its connection none of the leases was renewed, and a cancel was heard by nobody."""
    keeper = Keeper(watch_seconds=0.05, beat_seconds=0.1)
    monkeypatch.setattr(leases, "keeper", lambda: keeper)
    runs = [work.queued(tenant, timebox_sec=60, sleep_ms=50_000) for _ in range(SLOTS)]
    executor, ends = carried_out(runs, slots=SLOTS)
    with executor:
        ids = [run.run_id for run in runs]
        at_work = Run.objects.filter(run_id__in=ids, status=Status.PROCESSING)
        wait_until(lambda: at_work.count() == SLOTS, seconds=30, what="all to be at work")
        for run in runs:
            gear.aged(gear.row(run.run_id), lease_expires_at=-20)
        wait_until(lambda: all(_seconds_left(run) > 100 for run in runs), seconds=20, what="all to be renewed")
        connections.close_all()
        try:
            wait_until(_nobody_keeps_a_connection, seconds=5, what="the keeper to give its connection back")
        finally:  # or the packs would go on for their minute
            for run in runs:
                cancellation.cancel_run(tenant_id=tenant.tenant_id, run_id=run.run_id, actor="owner")
        assert [end.result(timeout=20) for end in ends] == [End.STOPPED] * SLOTS
    assert Run.objects.filter(run_id__in=ids, finalize_stage=Stage.COMMITTED, status=Status.FAILED).count() == SLOTS
    recovery.law_holds(tenant)


@pytest.mark.slow
@pytest.mark.contract("DPP-27")
def test_dpp_27_a_cancel_is_heard_beside_packs_that_talk_without_a_pause(tenant: Tenant) -> None:
    """Each of the 1,000 frames of a pack costs its slot the interpreter that the keeper shares with it."""
    talking, over = Box([MODULE]), threading.Event()
    run = work.queued(tenant, timebox_sec=60, sleep_ms=50_000)
    executor, ends = carried_out([run], slots=1)

    def talk(log: PackLog) -> None:
        while not over.is_set():
            begin(talking, a_job("STREAM", inputs={"number": 1_000}, timebox_seconds=60), log=log).wait()

    try:
        begin(talking, a_job("FREE")).wait()
        with executor, ThreadPoolExecutor(2) as slots:
            at_work = Run.objects.filter(run_id=run.run_id, status=Status.PROCESSING)
            wait_until(at_work.exists, seconds=30, what="it to be at work")
            said = [PackLog(), PackLog()]
            talks = [slots.submit(talk, log) for log in said]
            wait_until(lambda: all(len(log.events) > 100 for log in said), what="both to talk")
            began = time.monotonic()
            cancellation.cancel_run(tenant_id=tenant.tenant_id, run_id=run.run_id, actor="owner")
            assert ends[0].result(timeout=20) is End.STOPPED
            assert time.monotonic() - began < 2.0
            over.set()
            assert [one.result(timeout=60) for one in talks] == [None, None]
            assert [len(log.events) % 1_000 for log in said] == [0, 0], "nor did it cost them a frame"
    finally:
        over.set()
        talking.close()
    proofs.report(cases=1)


def _seconds_left(run: Run) -> float:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM lease_expires_at - clock_timestamp()) FROM runs WHERE run_id = %s", [run.run_id]
        )
        return float(cursor.fetchone()[0])


@pytest.mark.contract("DPP-34")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what an ended thread left open
def test_dpp_34_no_connection_is_used_by_two_slots_at_once(
    tenant: Tenant, two_connections: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that wander between slots, one statement after the other, each whole."""
    using: dict[int, int] = {}
    trespassers: list[tuple[int, int]] = []
    users: Counter[int] = Counter()
    wait: Any = BoundedConnection.wait

    def watched(self: Any, *args: Any, **values: Any) -> Any:
        me = threading.get_ident()
        if (other := using.setdefault(id(self), me)) != me:
            trespassers.append((other, me))
        users[me] += 1
        try:
            return wait(self, *args, **values)
        finally:
            using.pop(id(self), None)

    monkeypatch.setattr(BoundedConnection, "wait", watched)
    monkeypatch.setitem(connections.settings["default"]["OPTIONS"]["pool"], "connection_class", BoundedConnection)
    _reconnect()
    runs = [work.queued(tenant) for _ in range(LIVES)]
    connections.close_all()
    executor, ends = carried_out(runs, slots=SLOTS)
    with executor:
        assert [end.result(timeout=60) for end in ends] == [End.COMMITTED] * LIVES
    assert trespassers == []
    assert len(users) > SLOTS / 2
    recovery.law_holds(tenant)


def test_execution_what_the_slots_share_is_made_once_and_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen first runs at once made sixteen S3 clients, which was 100 MB."""
    made: Counter[str] = Counter()
    bucket = storage.shared_run_storage()
    monkeypatch.setattr(clients, "_s3_by_address", PerProcess(dict))
    monkeypatch.setattr(bucket, "_puts", PerProcess(dict))
    monkeypatch.setattr(clients, "new_s3", _counted(made, "client", clients.new_s3))
    monkeypatch.setattr(Box, "warm", lambda _self: made.update(["box"]))
    monkeypatch.setattr(gc, "freeze", lambda: None)
    leases.keeper.forget()
    if (left := execution.box.forget()) is not None:
        left.close()  # another test's: collected with its process it would fail whichever test runs then
    tasks.make_what_the_slots_share()
    assert made == {"client": 1, "box": 1}
    here = (leases.keeper(), execution.box(), bucket._signed_put())
    barrier = threading.Barrier(16)

    def first_run() -> tuple[Any, ...]:
        barrier.wait(10)
        return leases.keeper(), execution.box(), storage.shared_run_storage()._signed_put()

    with ThreadPoolExecutor(16) as slots:
        assert {found.result() for found in [slots.submit(first_run) for _ in range(16)]} == {here}
    assert made == {"client": 1, "box": 1}


def _counted(made: Counter[str], name: str, does: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*args: Any, **values: Any) -> Any:
        made[name] += 1
        return does(*args, **values)

    return counted


def test_execution_a_worker_does_not_load_what_serves_pages() -> None:
    """It would be a fifth larger."""
    script = (
        "import dpp_project.celery, django, sys; django.setup(); import runs.tasks\n"
        "print(*{name.split('.')[0] for name in sys.modules} & {'unfold', 'rest_framework', 'drf_spectacular'})\n"
        "print('django.contrib.admin' in sys.modules)"
    )
    environ = os.environ | {"DPP_SERVICE": "worker", "DJANGO_SETTINGS_MODULE": "dpp_project.settings"}
    said = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False"]
