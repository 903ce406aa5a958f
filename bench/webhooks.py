"""Webhooks: from an event to its first attempt, alone and beside hostile neighbours; and what a commit pays for them.

    make bench B=webhooks

Ten tenants with a receiver each that answers at once, twenty events a second in all, for twenty seconds: alone; beside
twenty new endpoints that hang for 15 s each; beside 10,000 deliveries of one endpoint. Sender, receivers and the bench
share one process. The time is from the message's row to the request at the receiver; the sender looks every 250 ms when
nothing wakes it. A commit is measured with and without its part for webhooks in turn, for a tenant without endpoints; a
claim with so many endpoints that wait for a retry.

One run on two cores that others used too:

    a commit: 0.597 ms without webhooks, 0.616 ms with them and no endpoint: +0.019 ms
          beside      p50      p95      p99   p95 to alone       peak
          nobody  0.128 s  0.319 s  0.368 s           1.00    181 MiB
         hanging  0.105 s  0.310 s  0.356 s           0.97    181 MiB
           flood  0.059 s  0.164 s  0.208 s           0.51    198 MiB
    a claim with 100 endpoints that wait: 3.3 ms
    a claim with 1,000 endpoints that wait: 9.9 ms
    a claim with 5,000 endpoints that wait: 28.3 ms
    a claim with 5,000 endpoints that wait, beside 300,000 deliveries that have ended: 43.2 ms
"""

import itertools
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench._services import own_services

if TYPE_CHECKING:
    from tests.gear.servers.receivers import Receivers

SECONDS, EVENTS_A_SECOND, TENANTS = 20, 20, 10
HANGING, FLOOD = 20, 10_000
COMMITS = 600
WAITING = (100, 1_000, 5_000)
HISTORY = (0, 300_000)


def p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def latencies(receivers: "Receivers", tenants: list[str]) -> list[float]:
    """Events at a steady pace; from each one's row to its first attempt."""
    from tenants.webhooks.models import WebhookMessage
    from tests.gear.builders import webhook_sending as hooks

    began = time.monotonic()
    sent: dict[str, float] = {}
    turns = itertools.cycle(tenants)
    for number in range(SECONDS * EVENTS_A_SECOND):
        time.sleep(max(0.0, began + number / EVENTS_A_SECOND - time.monotonic()))
        message = hooks.a_message(next(turns), event="run.completed")
        sent[f"msg_{message.message_id.hex}"] = message.at.timestamp()
    until = time.monotonic() + 60
    took: dict[str, float] = {}
    while len(took) < len(sent) and time.monotonic() < until:
        for letter in list(receivers.letters):
            if letter.webhook_id in sent:
                took.setdefault(letter.webhook_id, letter.at - sent[letter.webhook_id])
        time.sleep(0.1)
    assert len(took) == len(sent), f"{len(sent) - len(took)} never came"
    assert WebhookMessage.objects.exists()
    return list(took.values())


def neighbours(kind: str) -> None:
    from tests.gear.builders import webhook_sending as hooks

    if kind == "hanging":
        for _ in range(HANGING):
            hooks.messages(hooks.an_endpoint(url="https://good.example/hang").tenant_id, 20)
    if kind == "flood":
        hooks.deliveries_due(hooks.an_endpoint(url="https://good.example/flood", proven=True), FLOOD)


def of_sending(receivers: "Receivers") -> None:
    from tenants.webhooks.models import WebhookAttempt, WebhookDelivery, WebhookMessage
    from tests.gear.builders import webhook_sending as hooks
    from tests.gear.servers.receivers import a_sender, a_world

    alone = 0.0
    print(f"{'beside':>12s} {'p50':>8s} {'p95':>8s} {'p99':>8s}   p95 to alone       peak")
    for kind in ("nobody", "hanging", "flood"):
        for model in (WebhookAttempt, WebhookDelivery, WebhookMessage):
            model.objects.all().delete()
        receivers.letters.clear()
        made = [hooks.an_endpoint(url=f"https://good.example/e{n}", proven=True) for n in range(TENANTS)]
        neighbours(kind)
        with a_sender(a_world(receivers)):
            if kind != "nobody":
                time.sleep(2)
            took = latencies(receivers, [one.tenant_id for one in made])
            receivers.let_go.set()
        receivers.let_go.clear()
        alone = alone or p95(took)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
        slowest = statistics.quantiles(took, n=100)[-1]
        figures = f"{statistics.median(took):6.3f} s {p95(took):6.3f} s {slowest:6.3f} s {p95(took) / alone:14.2f}"
        print(f"{kind:>12s} {figures} {peak:8.0f} MiB", flush=True)


def of_commits() -> None:
    from runs import transitions
    from tests.gear.builders import runs as gear
    from tests.gear.builders import webhook_sending as hooks
    from tests.gear.builders.tenants import a_tenant

    for _ in range(50):
        hooks.an_endpoint()  # of others
    told, tenant_id = transitions._TELL_ENDED, a_tenant().tenant_id  # noqa: SLF001
    runs = [gear.claimed(tenant_id=tenant_id) for _ in range(2 * COMMITS)]
    took: dict[str, list[float]] = {"with": [], "without": []}
    for run, kind in zip(runs, itertools.cycle(took), strict=False):
        transitions._TELL_ENDED = told if kind == "with" else ""  # type: ignore[misc]  # noqa: SLF001
        claim = gear.claim_of(run)
        took[kind].append(timed(lambda: transitions.commit(claim=claim, taken_micros=gear.ACTUAL_MICROS)))  # noqa: B023
    transitions._TELL_ENDED = told  # type: ignore[misc]  # noqa: SLF001
    medians = {kind: statistics.median(values[50:]) * 1_000 for kind, values in took.items()}
    print(
        f"a commit: {medians['without']:.3f} ms without webhooks, {medians['with']:.3f} ms with them and no endpoint:"
        f" {medians['with'] - medians['without']:+.3f} ms"
    )


def of_claims() -> None:
    from django.db import connection
    from django.db.models.functions import Now

    from tenants.webhooks.dispatch import claims
    from tenants.webhooks.models import WebhookDelivery, WebhookEndpoint
    from tests.gear.builders import webhook_sending as hooks
    from tests.gear.builders.tenants import a_tenant

    tenant = a_tenant()
    message = hooks.a_message(tenant.tenant_id)
    there = 0
    for size, history in [(size, HISTORY[0]) for size in WAITING] + [(WAITING[-1], HISTORY[1])]:
        if history:
            delivered(history)
        made = WebhookEndpoint.objects.bulk_create(
            [
                WebhookEndpoint(
                    tenant=tenant,
                    url="https://good.example/",
                    events=["run.failed"],
                    created_at=Now(),
                    updated_at=Now(),
                )
                for _ in range(size - there)
            ]
        )
        there = size
        WebhookDelivery.objects.bulk_create(
            [
                WebhookDelivery(message=message, endpoint=one, status="PENDING", next_attempt_at="2100-01-01T00:00:00Z")
                for one in made
            ]
        )
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE webhook_delivery, webhook_endpoint")
        claims.claim_deliveries()
        took = [timed(claims.claim_deliveries) for _ in range(20)]
        beside = f", beside {history:,d} deliveries that have ended" if history else ""
        print(
            f"a claim with {size:,d} endpoints that wait{beside}: {statistics.median(took) * 1_000:.1f} ms", flush=True
        )


def delivered(count: int) -> None:
    """So many deliveries of the past, spread over all endpoints."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO webhook_message (tenant_id, event, key, payload, fanned_out_at)"
            " SELECT 't_operator', 'run.failed', 'old:' || n, '{}', now() FROM generate_series(1, %s) n",
            [count],
        )
        cursor.execute(
            "INSERT INTO webhook_delivery (message_id, endpoint_id, status, ended_at) SELECT message_id, endpoint_id,"
            " 'DELIVERED', now() FROM (SELECT message_id, row_number() OVER () AS n FROM webhook_message WHERE key LIKE"
            " 'old:%') m JOIN (SELECT endpoint_id, row_number() OVER () AS n FROM webhook_endpoint) e"
            " ON e.n = m.n % (SELECT count(*) FROM webhook_endpoint) + 1"
        )


def timed(what: Callable[[], object]) -> float:
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


def measure() -> None:
    import django

    django.setup()
    from django.core.management import call_command

    from tests.gear.servers.receivers import Receivers

    call_command("migrate", verbosity=0)
    random.seed(1)
    of_commits()
    with tempfile.TemporaryDirectory() as folder:
        receivers = Receivers(Path(folder))
        of_sending(receivers)
        receivers.close()
    of_claims()


if __name__ == "__main__":
    os.environ.setdefault("DPP_ENCRYPTION_KEYS", "Zm9yIHRoZSBiZW5jaCBvZiB3ZWJob29rcyBhbG9uZSE=")
    with own_services():
        measure()
