"""Postgres goes away while clients wait: they wait on, or end with what was known, and none is refused (DPP-80)."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.db import connection

from tests.gear.builders.shop import RUNS, Shop
from tests.gear.builders.waiting import a_get, failed, queued, read, wait_for_a_look, waiting
from tests.gear.faults.proxy import Mode, Proxy
from tests.gear.servers.live_api import Api, an_api
from tests.gear.servers.live_processes import database_url
from tests.gear.waiting import wait_until
from tests.proving import proofs

pytestmark = [pytest.mark.contract("DPP-80"), pytest.mark.django_db(transaction=True)]
AWAY = [Mode.REFUSE, Mode.BLACK_HOLE]
OUTAGE_SECONDS = 3.0
SOON_SECONDS = 5.0
"""On a busy machine; who asks for a connection meanwhile waits for ten."""


@pytest.fixture
def postgres(transactional_db: None) -> Iterator[Proxy]:
    found = connection.settings_dict
    with Proxy(str(found["HOST"]), int(found["PORT"] or 5432)) as proxy:
        yield proxy


@pytest.fixture
def api(postgres: Proxy, tmp_path: Path) -> Iterator[Api]:
    url = database_url(host="127.0.0.1", port=postgres.port)
    with an_api(tmp_path, threads=2, limits={}, environ={"DATABASE_URL": url}) as api:
        yield api


def outlives(api: Api, postgres: Proxy, shop: Shop, mode: Mode, *, seconds: float, patience: float) -> None:
    """One client's wait ends during the outage, the other's run ends during it and is answered after it."""
    short, long = queued(shop), queued(shop)
    with ExitStack() as stack:
        (patient,) = waiting(api, stack, shop, long, query="?wait=55")
        (hasty,) = waiting(api, stack, shop, short, query="?wait=2")
        wait_for_a_look()
        with postgres.outage(mode):
            began = time.monotonic()
            answer = hasty.receive()
            assert (answer.status, read(answer)["status"]) == (200, "QUEUED")
            assert time.monotonic() - began < 2 + SOON_SECONDS, "it needed the database for nothing"
            failed(long)  # by this process, which goes past the proxy
            wait_until(lambda: time.monotonic() - began >= seconds, seconds=seconds + 5, what="the outage's length")
            assert patient.is_waiting()
        ended = time.monotonic()
        answer = patient.receive()
        assert (answer.status, read(answer)["status"]) == (200, "FAILED")
        assert time.monotonic() - ended < patience
    assert not [line for line in api.log_lines("request") if line["status"] >= 500]


def test_dpp_80_a_refusing_postgres_ends_no_wait(api: Api, postgres: Proxy, shop: Shop) -> None:
    outlives(api, postgres, shop, Mode.REFUSE, seconds=OUTAGE_SECONDS, patience=8)
    assert api.ask(a_get(RUNS, shop.issued)).status == 200


@pytest.mark.slow
@pytest.mark.parametrize("mode", AWAY, ids=lambda mode: mode.value)
def test_dpp_80_thirty_seconds_without_postgres_end_no_wait(api: Api, postgres: Proxy, shop: Shop, mode: Mode) -> None:
    """A statement in a black hole is given up after 20 s, and the connection with it."""
    outlives(api, postgres, shop, mode, seconds=30, patience=25)
    proofs.report(cases=1)
