"""Fixtures that more than one folder needs."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
import redis as redis_library
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db import connections
from django.test import TransactionTestCase

from dpp_project import clock as clock_module
from dpp_project.aws import provisioning, sqs_sender
from dpp_project.clock import FixedClock
from dpp_project.settings import ENV
from dpp_project.stores import redis
from runs.bucket import storage
from tenants import authentication
from tests.gear import migrated
from tests.gear.builders.box import results_fit
from tests.gear.builders.console import console
from tests.gear.builders.queues import express
from tests.gear.builders.recovery import tenant
from tests.gear.builders.shop import shop
from tests.gear.builders.work import products_box_ends, session_box, worker_here
from tests.gear.faults.deaths import children_die
from tests.gear.truncation import empty_tables

__all__ = [
    "children_die",
    "console",
    "express",
    "products_box_ends",
    "results_fit",
    "session_box",
    "shop",
    "tenant",
    "worker_here",
]

PBKDF2PasswordHasher.iterations = 1_000
"""A password costs a fifth of a second in earnest, each time that one is set or tried."""
TransactionTestCase._fixture_teardown = empty_tables  # type: ignore[attr-defined]
MADE_WITHIN_SECONDS = 100.0
PRODUCTS_TIMEOUT: float = connections["default"].settings_dict["OPTIONS"]["pool"]["timeout"]


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, django_db_blocker: Any
) -> Iterator[None]:
    """Close a pool that a test without a database has made: it leads to the server's own database, not to the test's.

    Its connections would be used on until a test closes the pool, and from then on no table would be there.
    """
    database: Any = connections["default"]
    database.close_pool()
    database.settings_dict["OPTIONS"]["pool"]["timeout"] = MADE_WITHIN_SECONDS
    with ExitStack() as lasting:
        if (run := os.environ.get(migrated.RUN) or os.environ.get("PYTEST_XDIST_TESTRUNUID")) is not None:
            with django_db_blocker.unblock():
                lasting.enter_context(migrated.template(database, run=run))
        yield


@pytest.fixture(scope="session")
def django_db_setup(
    django_db_setup: None, django_db_modify_db_settings: None, django_db_blocker: Any
) -> Iterator[None]:
    """A disk that takes nothing for ten seconds while the database is made would fail every test of the process. From
    then on connections are waited for as in the product.

    At the end a process that was killed may still be about to close its connection: Postgres drops no database that
    has one, and whichever test came last would fail.
    """
    database: Any = connections["default"]
    database.settings_dict["OPTIONS"]["pool"]["timeout"] = database.pool.timeout = PRODUCTS_TIMEOUT
    yield
    with django_db_blocker.unblock(), database.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture
def clock() -> Iterator[FixedClock]:
    """Time stands still until the test moves it."""
    fixed = FixedClock(datetime(2026, 3, 1, 12, 0, tzinfo=UTC))
    with clock_module.use_clock(fixed):
        yield fixed


@pytest.fixture
def valkey() -> redis_library.Redis:
    """This process's own Valkey, empty."""
    client = redis.redis_client()
    client.flushall()
    return client


@pytest.fixture(autouse=True)
def _front_door_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test meets a key that another one used, and no timer writes `last_used_at` behind a test's back."""
    authentication.memory.forget()
    monkeypatch.setattr(authentication.last_used, "_run_later", lambda _seconds, _flush: None)
    authentication.failures.forget()
    monkeypatch.setattr(authentication.failures, "_run_later", lambda _seconds, _flush: None)


@pytest.fixture(scope="session")
def aws() -> Iterator[str]:
    """This process's own queues and bucket, as `manage.py provision` makes them; answers the queue's URL."""
    provisioning.provision_aws(dry_run=False)
    yield ENV.DPP_QUEUE_URL
    if (sender := sqs_sender.shared_sender.forget()) is not None:
        sender.close()
    storage.shared_run_storage().close()
