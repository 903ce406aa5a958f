"""A statement that is read slowly holds no thread beyond its time, and a tenant has one at a time (HRD-12)."""

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from dpp_project.http import streams
from tests.gear.builders.shop import Shop, a_shop
from tests.gear.builders.tenants import bearer
from tests.gear.servers.live_api import an_api
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.contract("HRD-12"), pytest.mark.django_db(transaction=True)]

STATEMENT = "/v1/budget/entries"
ROWS = 60_000
SECONDS = 1.0


@pytest.fixture(autouse=True)
def no_stream_is_left() -> Iterator[None]:
    yield
    assert streams._tenants == set()


def asked(client: Client, shop: Shop) -> Any:
    return client.get(STATEMENT, headers=bearer(shop.issued) | {"Accept": "text/csv"})


def test_hrd_12_a_tenant_reads_one_statement_at_a_time(shop: Shop, client: Client) -> None:
    first = asked(client, shop)
    second = asked(client, shop)
    assert (first.status_code, second.status_code) == (200, 429)
    assert (second.json()["reason_code"], second.headers["Retry-After"]) == ("RATE_LIMITED", "10")
    other = a_shop()
    theirs = asked(client, other)
    assert theirs.status_code == 200
    assert b"CLOSING" in b"".join(first.streaming_content)
    first.close()
    third = asked(client, shop)
    assert third.status_code == 200
    for response in (theirs, third):
        response.close()


def test_hrd_12_all_tenants_together_leave_threads_for_the_rest(
    shop: Shop, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_AT_ONCE", 1)
    first = asked(client, shop)
    assert asked(client, a_shop()).status_code == 429
    first.close()


def with_a_long_statement(shop: Shop) -> None:
    """Longer than what the kernel takes of it by itself."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_entries (entry_id, tenant_id, kind, amount_usd_micros, reference, reason, actor)"
            " SELECT gen_random_uuid(), %s, 'ADJUST', CASE n %% 2 WHEN 0 THEN 1 ELSE -1 END, 'ref-' || n,"
            " repeat('x', 200), 'test' FROM generate_series(1, %s) n",
            [shop.tenant.pk, ROWS],
        )


def test_hrd_12_a_slow_reader_gives_its_thread_back_after_its_time(shop: Shop, tmp_path: Path) -> None:
    with_a_long_statement(shop)
    limits = {"streams": {"seconds": SECONDS, "bytes_per_further_second": 1 << 30}}
    key = f"Authorization: Bearer {shop.issued.plaintext}"
    with an_api(tmp_path, threads=1, limits=limits) as api, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.settimeout(30)
        slow.connect(("127.0.0.1", api.port))
        slow.sendall(f"GET {STATEMENT} HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}\r\nAccept: text/csv\r\n\r\n".encode())
        started = time.monotonic()
        assert slow.recv(10).startswith(b"HTTP/1.1 2")
        assert api.ask(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}\r\n\r\n".encode()).status == 200
        answer = api.ask(f"GET /v1/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}\r\n\r\n".encode())
        assert answer.status == 200
        assert time.monotonic() - started < SECONDS + 10
        line = wait_until(lambda: api.log_lines("client took a streamed answer too slowly"))[0]
        assert line["sent_bytes"] > 0
        received = b""
        with suppress(ConnectionResetError):
            while data := slow.recv(65_536):
                received += data
        assert b"CLOSING" not in received
        assert not received.endswith(b"0\r\n\r\n"), "a statement that was cut must not look whole"
