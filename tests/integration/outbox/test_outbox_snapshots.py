"""A snapshot that is held keeps every dead index entry: claims cost what they did before, and not more each second."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
import pytest
from django.db import connection

from dpp_project.aws.sqs_sender import QueueMessage, SendFailed
from dpp_project.outbox.publisher import CLAIMED_MAX, Publisher
from tests.gear.builders import events as gear
from tests.proving import proofs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("AUT-05")]

_FILL = """
INSERT INTO outbox_message
    (outbox_id, aggregate_type, aggregate_id, event_type, idempotency_key, payload, next_retry_at)
SELECT gen_random_uuid(), 'thing', n::text, 'thing.happened.v1', 'thing:happened:' || n, jsonb_build_object('thing', n),
    now() - make_interval(secs => 60 - 50.0 * n / %s)
FROM generate_series(1, %s) AS n
"""
_BLOCKS = """
SELECT (SELECT heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit FROM pg_statio_user_tables
    WHERE relname = 'outbox_message')
"""


class Taking:
    """A queue that takes everything: what is measured is Postgres."""

    def send_batch(self, _messages: Sequence[QueueMessage]) -> dict[int, SendFailed]:
        return {}


@contextmanager
def a_held_snapshot() -> Iterator[None]:
    settings = connection.settings_dict
    with psycopg.connect(
        host=settings["HOST"],
        port=settings["PORT"],
        user=settings["USER"],
        password=settings["PASSWORD"],
        dbname=settings["NAME"],
    ) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM outbox_message")
        yield
        other.rollback()


def blocks() -> int:
    """Of the outbox and its indexes, touched so far."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(_BLOCKS)
        return int(cursor.fetchone()[0])


def cost_of(publisher: Publisher, *, claimed: int) -> int:
    before = blocks()
    assert publisher.publish_once() == claimed
    return blocks() - before


def claims_under_a_snapshot(count: int) -> tuple[list[int], list[int], int]:
    """Blocks of each claim of a backlog, of each look for one new event, and of a walk from the beginning."""
    publisher = Publisher(sender=Taking)  # type: ignore[arg-type]
    with connection.cursor() as cursor:
        cursor.execute(_FILL, [count, count])
        cursor.execute("ANALYZE outbox_message")
    with a_held_snapshot():
        backlog = [cost_of(publisher, claimed=CLAIMED_MAX) for _ in range(count // CLAIMED_MAX)]
        publisher.publish_once()
        looks = []
        for number in range(10):
            gear.written(gear.an_event(f"new {number}"))
            looks.append(cost_of(publisher, claimed=1))
        publisher._walk_at = float("-inf")
        gear.written(gear.an_event("last"))
        return backlog, looks, cost_of(publisher, claimed=1)


@pytest.fixture(autouse=True)
def _one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr("dpp_project.outbox.publisher.WALK_SECONDS", 8.0)


def flat(backlog: list[int]) -> bool:
    tenth = max(1, len(backlog) // 10)
    return sum(backlog[-tenth:]) < 1.5 * sum(backlog[1 : 1 + tenth])


def test_aut_05_claims_are_flat_while_a_snapshot_is_held() -> None:
    backlog, looks, walk = claims_under_a_snapshot(2_000)
    assert flat(backlog), backlog
    assert max(looks) < 60, looks
    assert walk > max(looks), "a walk reads what is dead, or this shows nothing"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_aut_05_claims_of_a_long_backlog_are_flat_while_a_snapshot_is_held() -> None:
    backlog, looks, walk = claims_under_a_snapshot(30_000)
    assert flat(backlog), backlog
    assert max(looks) < 60, looks
    assert walk > 5 * max(looks), (walk, looks)
    proofs.report(cases=len(backlog))
