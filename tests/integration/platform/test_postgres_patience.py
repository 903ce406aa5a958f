"""A Postgres that stands and answers no more is given up, so that no thread waits for it for ever."""

import os
import time
from itertools import pairwise
from typing import Any, Never, cast

import psycopg
import psycopg_pool.pool
import pytest
from django.db import connection
from psycopg import errors
from psycopg_pool import ConnectionPool

from dpp_project.stores import postgres
from dpp_project.stores.postgres import BoundedConnection
from tests.gear.faults.proxy import Mode, Proxy
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("DPP-39")


def test_dpp_39_a_connection_into_a_black_hole_is_given_up(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "ANSWER_SECONDS", 0.3)
    database = connection.settings_dict
    with (
        Proxy(str(database["HOST"]), int(database["PORT"])) as proxy,
        BoundedConnection.connect(
            host="127.0.0.1",
            port=proxy.port,
            user=database["USER"],
            password=database["PASSWORD"],
            dbname=database["NAME"],
            autocommit=True,
        ) as bounded,
    ):
        assert bounded.execute("SELECT 1").fetchone() == (1,)
        proxy.set(Mode.BLACK_HOLE)
        began = time.monotonic()
        with pytest.raises(psycopg.OperationalError, match="has not answered"):
            bounded.execute("SELECT 1")
        assert time.monotonic() - began < 5
        assert bounded.closed, "nobody may ask it again"


def test_an_answer_that_takes_less_is_waited_for(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "ANSWER_SECONDS", 5.0)
    with BoundedConnection.connect(os.environ["DATABASE_URL"], autocommit=True) as bounded:
        assert bounded.execute("SELECT pg_sleep(0.3), 1").fetchone() == ("", 1)
        assert not bounded.closed


class _Away(psycopg.Connection[Any]):
    @classmethod
    def connect(cls, *_args: object, **_options: object) -> Never:
        raise psycopg.OperationalError("connection refused")


def test_dpp_39_after_a_long_outage_a_connection_is_tried_again_within_seconds(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour on a clock of its own, in which a thread asks each second: the doubling pauses must not pile up."""
    now, due, tried = 0.0, [], []
    monkeypatch.setattr(psycopg_pool.pool, "monotonic", lambda: now)
    options = cast("dict[str, Any]", connection.settings_dict["OPTIONS"]["pool"])
    pool = ConnectionPool("", open=False, **options | {"connection_class": _Away})
    monkeypatch.setattr(pool, "schedule_task", lambda task, delay: due.append((now + delay, task)))
    monkeypatch.setattr(pool, "run_task", lambda task: due.append((now, task)))
    while now < 3_600:
        with pool._lock:
            pool._maybe_grow_pool()
        for entry in [one for one in due if one[0] <= now]:
            due.remove(entry)
            tried.append(now)
            entry[1]._run(pool)
        now += 1.0
    between = [later - earlier for earlier, later in pairwise(tried)]
    assert max(between) <= 5.0, "a process that waits longer is away for as long again as Postgres was"
    assert len(tried) > 700


@pytest.mark.contract("HRD-01")
def test_hrd_01_a_host_that_freezes_in_a_transaction_keeps_its_row_locks_for_a_bounded_time(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernel answers for it, so no keepalive notices; the server ends a transaction that asks nothing."""
    monkeypatch.setattr(postgres, "GONE_SECONDS", 0.5)
    options = postgres.session_settings(bounded=True)
    key = "SELECT pg_try_advisory_xact_lock(7, 7)"
    with (
        psycopg.connect(os.environ["DATABASE_URL"], options=options) as frozen,
        psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as other,
    ):
        assert frozen.execute(key).fetchone() == (True,)
        assert other.execute(key).fetchone() == (False,)
        wait_until(lambda: other.execute(key).fetchone() == (True,), what="the end of the frozen transaction")
        with pytest.raises(errors.IdleInTransactionSessionTimeout):
            frozen.execute("SELECT 1")


@pytest.mark.contract("HRD-01")
def test_hrd_01_a_statement_that_was_given_up_ends_at_the_server_too(db: None) -> None:
    assert postgres.ANSWER_SECONDS < postgres.STATEMENT_SECONDS < postgres.GONE_SECONDS
    with psycopg.connect(os.environ["DATABASE_URL"], options=postgres.session_settings(bounded=True)) as service:
        assert service.execute("SHOW statement_timeout").fetchone() == ("25s",)
    with psycopg.connect(os.environ["DATABASE_URL"], options=postgres.session_settings(bounded=False)) as migration:
        assert migration.execute("SHOW statement_timeout").fetchone() == ("0",)
