"""A Postgres that stands and answers no more is given up, so that no thread waits for it for ever."""

import os
import time

import psycopg
import pytest
from django.db import connection

from dpp_project.stores import postgres
from dpp_project.stores.postgres import BoundedConnection
from tests.gear.faults.proxy import Mode, Proxy

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
