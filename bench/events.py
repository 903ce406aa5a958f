"""How long an event takes from its commit to its handler's, and what a claim costs beside a million old events.

    make bench B=events

The loops are those of the process `events`: one publisher and four consumers, here on threads beside the writer. In
production the writer is another process: so its commits ring no bell here either, and the publisher looks every 250 ms.
"""

import os
import statistics
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import django
from django.core.management import call_command
from django.db import connection, connections, transaction

EVENTS = int(os.environ.get("BENCH_EVENTS", "400"))
PER_SECOND = 20
ROWS = (1_000, 1_000_000)
CLAIMS = 50

_OLD = """
INSERT INTO outbox_message (outbox_id, aggregate_type, aggregate_id, event_type, idempotency_key, payload)
SELECT gen_random_uuid(), 'bench', n::text, 'bench.old.v1', 'bench:old:' || n, '{}'
FROM generate_series(%s::int, %s::int) AS n
"""
_CLAIMED = """
UPDATE outbox_message SET status = 'PROCESSING', processing_owner = gen_random_uuid(), claimed_at = now()
WHERE event_type = 'bench.old.v1' AND status = 'PENDING'
"""
_HANDLED = """
UPDATE outbox_message SET status = 'PUBLISHED', processing_owner = NULL, claimed_at = NULL, published_at = now(),
    handled_at = now(), resend_at = now()
WHERE event_type = 'bench.old.v1' AND status = 'PROCESSING'
"""


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")
    django.setup()
    call_command("migrate", verbosity=0)
    call_command("provision", verbosity=0)
    latency()
    claims()


@contextmanager
def loops() -> Iterator[None]:
    from dpp_project.aws import sqs_sender
    from dpp_project.outbox import events, queue
    from dpp_project.outbox.consumer import EventConsumer
    from dpp_project.outbox.publisher import Publisher

    url = str(queue.URL)
    handlers = {"bench.happened.v1": events.Handler("bench.happened.v1", lambda _event: None)}
    sender = sqs_sender.sqs_sender_to(url)
    stop = threading.Event()
    runs = [Publisher(sender=lambda: sender).run]
    runs += [EventConsumer(url=url, sender=lambda: sender, handlers=handlers).run for _ in range(events.CONSUMERS)]
    threads = [threading.Thread(target=run, args=(stop,), daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def latency() -> None:
    """Commit to handled by the database's clock, at a steady rate, without the bell."""
    from dpp_project.outbox import events, wakeup, writing
    from dpp_project.outbox.models import OutboxMessage

    kind = events.EventDescriptor(
        aggregate_type="bench", event_type="bench.happened.v1", key_prefix=f"bench:{uuid.uuid4().hex}"
    )
    ring, wakeup.ring_publisher = wakeup.ring_publisher, lambda: None
    try:
        with loops():
            for number in range(EVENTS):
                with transaction.atomic():
                    writing.insert_event(
                        events.NewEvent(descriptor=kind, aggregate_id=str(number), payload={"n": number})
                    )
                time.sleep(1 / PER_SECOND)
            mine = OutboxMessage.objects.filter(idempotency_key__startswith=kind.key_prefix)
            while mine.filter(handled_at__isnull=True).exists():
                time.sleep(0.1)
    finally:
        wakeup.ring_publisher = ring
    ages = [(row.handled_at - row.created_at).total_seconds() * 1_000 for row in mine if row.handled_at is not None]
    said(f"commit to handled, {PER_SECOND} a second", ages)


class Taking:
    def send_batch(self, _messages: Sequence[object]) -> dict[int, Exception]:
        return {}


def claims() -> None:
    """One event claimed and published, beside so many that were handled; what is timed is Postgres alone."""
    from dpp_project.outbox import events, writing
    from dpp_project.outbox.publisher import Publisher

    done = 0
    for rows in ROWS:
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 0")
            for start in range(done + 1, rows + 1, 100_000):
                cursor.execute(_OLD, [start, min(rows, start + 99_999)])
                cursor.execute(_CLAIMED)
                cursor.execute(_HANDLED)
            cursor.execute("VACUUM ANALYZE outbox_message")
        done = rows
        publisher = Publisher(sender=Taking)  # type: ignore[arg-type]
        kind = events.EventDescriptor(
            aggregate_type="bench", event_type="bench.claim.v1", key_prefix=f"bench:{uuid.uuid4().hex}"
        )
        took = []
        for number in range(CLAIMS):
            with transaction.atomic():
                writing.insert_event(events.NewEvent(descriptor=kind, aggregate_id=str(number), payload={}))
            began = time.perf_counter()
            assert publisher.publish_once() == 1
            took.append((time.perf_counter() - began) * 1_000)
        said(f"claim and publish beside {rows:,} rows", took)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM outbox_message WHERE aggregate_type = 'bench'")
    connections.close_all()


def said(what: str, values_ms: list[float]) -> None:
    ordered = sorted(values_ms)
    p95 = ordered[int(len(ordered) * 0.95) - 1]
    print(f"{what:45} n {len(ordered):6}   p50 {statistics.median(ordered):7.1f} ms   p95 {p95:7.1f} ms", flush=True)


if __name__ == "__main__":
    main()
