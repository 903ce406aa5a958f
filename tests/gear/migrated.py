"""One database is migrated for all processes of a test run, and each gets a copy of it.

A migration from nothing takes three seconds of a processor and two of Postgres, a copy a few hundredths.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from django.conf import settings
from psycopg import sql

RUN: Final = "DPP_TESTS_MIGRATED"
"""Set where many test runs follow one another: what they share. The database then stays until its server goes."""
_LOCK: Final = 0x74656D70
"""Of the server: of several processes the first migrates, and the others wait for it."""


@contextmanager
def template(database: Any, *, run: str) -> Iterator[None]:
    """While it lasts Django makes its test database as a copy. `run` is what all processes of a test run share."""
    name = f"test_{settings.DATABASES[database.alias]['NAME']}_{run}"
    with _alone(database) as server:
        is_ours = server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is None
        if is_ours:
            _migrate(database, name)
    database.settings_dict["TEST"]["TEMPLATE"] = name
    try:
        yield
    finally:
        if is_ours and RUN not in os.environ:
            with _alone(database) as server:
                server.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))


@contextmanager
def _alone(database: Any) -> Iterator["psycopg.Connection[Any]"]:
    asked = {key: database.settings_dict[key.upper()] for key in ("host", "port", "user", "password")}
    with psycopg.connect(**asked, dbname="postgres", autocommit=True) as server:
        server.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        yield server


def _migrate(database: Any, name: str) -> None:
    """A process that dies meanwhile leaves one that is not whole; Django migrates each copy of it to its end."""
    tests, own = database.settings_dict["TEST"], database.settings_dict["NAME"]
    own_of_tests, tests["NAME"] = tests["NAME"], name
    try:
        database.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    finally:
        database.close()
        database.close_pool()
        tests["NAME"] = own_of_tests
        database.settings_dict["NAME"] = settings.DATABASES[database.alias]["NAME"] = own
