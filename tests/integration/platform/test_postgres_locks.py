"""One row that another session locks and never lets go costs its own run, and no other (DPP-46, DPP-31)."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.db.models.signals import pre_migrate
from redis import Redis

from dpp_project.constants import LEASE_TTL_SECONDS
from dpp_project.jobs import registry, runner
from dpp_project.jobs.runner import PassOutcome
from dpp_project.stores import postgres
from dpp_project.stores.postgres import BoundedConnection
from runs.claims import Lease
from runs.models import Run
from runs.worker.leases import HeldLease, Keeper
from tenants.models import Tenant
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear

pytestmark = pytest.mark.django_db(transaction=True)

SHOWN = """
import django; django.setup()
from django.db import connection
with connection.cursor() as cursor:
    for name in (
        "lock_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout",
        "idle_in_transaction_session_timeout",
    ):
        cursor.execute(f"SHOW {name}")
        print(*cursor.fetchone())
"""


@pytest.fixture
def as_a_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Connections as worker and beat have them, with less patience."""
    options: Any = connections.settings["default"]["OPTIONS"]
    with monkeypatch.context() as patch:
        patch.setattr(postgres, "ANSWER_SECONDS", 2.0)
        patch.setattr(postgres, "LOCK_SECONDS", 0.3)
        patch.setitem(options, "options", postgres.session_settings(bounded=True))
        patch.setitem(options["pool"], "connection_class", BoundedConnection)
        _reconnect()
        yield
    _reconnect()


def _reconnect() -> None:
    database: Any = connection
    database.close()
    database.close_pool()


@contextmanager
def locked_by_another(run: Run) -> Iterator[None]:
    with closing(psycopg.connect(str(os.environ["DATABASE_URL"]), dbname=connection.settings_dict["NAME"])) as other:
        other.execute("SELECT FROM runs WHERE run_id = %s FOR UPDATE", [run.run_id])
        yield


@pytest.mark.contract("DPP-46")
def test_dpp_46_a_locked_row_stops_no_other_of_its_loop_in_this_pass_or_the_next(
    tenant: Tenant, as_a_service: None
) -> None:
    job = registry.job_named("lease_reaper")
    locked, *_ = [recovery.lease_ran_out(tenant) for _ in range(3)]
    with locked_by_another(locked):
        first = runner.run_job_pass(job).report
        assert first is not None
        assert (first.changed, first.errors, first.detail["skipped"]) == (
            2,
            1,
            {str(locked.run_id): "OperationalError"},
        )
        connections.close_all()  # as beat does behind each job
        recovery.lease_ran_out(tenant)
        second = runner.run_job_pass(job)
        assert second.outcome is PassOutcome.DONE, "the session that was given up kept the job's lock"
        assert second.report is not None
        assert (second.report.changed, second.report.errors) == (1, 1)
    third = runner.run_job_pass(job).report
    assert third is not None
    assert (third.changed, third.errors) == (1, 0)
    recovery.law_holds(tenant)


@pytest.mark.contract("DPP-31")
def test_dpp_31_a_locked_row_keeps_no_other_lease_of_its_worker_from_being_renewed(
    valkey: Redis, as_a_service: None
) -> None:
    runs = [gear.aged(gear.working(), lease_expires_at=-20) for _ in range(3)]
    locked, stopped = runs[1], list[Run]()
    with ExitStack() as holding, locked_by_another(locked):
        keeper = Keeper(watch_seconds=3_600.0, beat_seconds=3_600.0)
        for run in runs:
            holding.enter_context(
                keeper.holding(_lease(run), message=None, stop=_noting(stopped, run), has_signal=False)
            )
        held: list[HeldLease] = list(keeper._held.values())
        keeper.beat(held)
    left = {run.run_id: _seconds_left(run) for run in runs}
    assert left.pop(locked.run_id) <= 20
    assert all(LEASE_TTL_SECONDS - 10 < seconds <= LEASE_TTL_SECONDS for seconds in left.values())
    assert (stopped, [one.lost for one in held]) == ([], [False, False, False])


def _lease(run: Run) -> Lease:
    assert run.lease_token is not None
    return Lease(run.run_id, run.lease_token)


def _noting(stopped: list[Run], run: Run) -> Callable[[], None]:
    return lambda: stopped.append(run)


def _seconds_left(run: Run) -> float:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM lease_expires_at - clock_timestamp()) FROM runs WHERE run_id = %s", [run.run_id]
        )
        return float(cursor.fetchone()[0])


@pytest.mark.contract("DPP-39")
@pytest.mark.parametrize(("service", "lock"), [("worker", "10s"), ("command", "0")])
def test_dpp_39_a_session_notices_a_lock_that_stays_and_a_machine_that_is_gone(service: str, lock: str) -> None:
    environ = os.environ | {"DPP_SERVICE": service, "DJANGO_SETTINGS_MODULE": "dpp_project.settings"}
    shown = subprocess.run(
        [sys.executable, "-c", SHOWN], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.split() == [lock, "15", "5", "3", "30000", "30s"]


@pytest.mark.contract("HRD-08")
def test_a_migration_waits_for_a_lock_no_longer_than_those_behind_it_may() -> None:
    seen: list[str] = []

    def look(**_about: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            seen.append(cursor.fetchone()[0])

    pre_migrate.connect(look)
    try:
        call_command("migrate", verbosity=0)
    finally:
        pre_migrate.disconnect(look)
    assert set(seen) == {"5s"}
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)
