"""The sender: messages to deliveries, deliveries to attempts, attempts to marks, over and over.

    turn      marks what has come, fans out what is new, claims what is due and has room
    attempts  run on an event loop in a thread of their own, so that what hangs there holds up no turn; the rooms of
              claims.py bound them. What came of each wakes the next turn, as do 250 ms.

Postgres away: the sender pauses, 0.25 s and longer, keeps what came of attempts and marks it later; none is counted
that was not made. Told to end, it claims nothing more, waits a moment for what is in flight, cuts the rest, and gives
their leases back: they are sent again under the same webhook-id. Killed, their leases run out, with the same end.
"""

import asyncio
import queue
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog
from django.db import connections
from django.db.models.functions import Now

from dpp_project import clock, encryption
from dpp_project.observe import spans
from dpp_project.outbound.connecting import Rules
from dpp_project.outbound.network import Internet, Network
from dpp_project.stores import postgres
from dpp_project.stores.postgres import AWAY_PAUSE_MAX_SECONDS, DATABASE_AWAY
from tenants.webhooks import bodies, metrics, reach, signing_secrets
from tenants.webhooks.dispatch import claims, delivery, marks
from tenants.webhooks.dispatch.claims import ClaimedDelivery
from tenants.webhooks.dispatch.delivery import AttemptMade, SealedLetter
from tenants.webhooks.dispatch.fanout import fan_out
from tenants.webhooks.dispatch.marks import Marked
from tenants.webhooks.models import WebhookDelivery

log = structlog.get_logger("dpp.webhooks")

LOOK_SECONDS: Final = 0.25
BUSY_SECONDS: Final = 0.02
END_SECONDS: Final = 5.0
"""How long the end waits for what is in flight."""
PUT_OFF: Final = timedelta(minutes=5)


@dataclass(frozen=True, kw_only=True)
class SenderReach:
    """The world as the sender reaches it. Names of doubtful endpoints are asked for apart: a name server that never
    answers keeps a thread of its network for long after its attempt has ended, and would take them from the others.
    """

    rules: Rules
    tls: ssl.SSLContext
    proven: Network
    doubtful: Network

    @classmethod
    def real(cls) -> "SenderReach":
        return cls(
            rules=reach.webhook_rules(), tls=reach.webhook_tls(), proven=Internet(), doubtful=reach.webhook_network()
        )


@dataclass(frozen=True, slots=True)
class _Came:
    claimed: ClaimedDelivery
    attempt: AttemptMade | None
    """None: it was not made, or was cut off by our own end."""
    has_failed: bool = False
    """By a fault of ours, which may come again at once."""


class WebhookSender:
    """`run` in one thread. Several at once, in any processes, share the room."""

    def __init__(self, world: SenderReach) -> None:
        self._world = world
        self._loop = asyncio.new_event_loop()
        self._came: queue.SimpleQueue[_Came] = queue.SimpleQueue()
        self._unmarked: list[_Came] = []
        self._in_flight: dict[ClaimedDelivery, asyncio.Task[None]] = {}

    def run(self, stop: threading.Event) -> None:
        thread = threading.Thread(target=self._loop.run_forever, name="webhook attempts", daemon=True)
        thread.start()
        try:
            self._turns(stop)
            self._end()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    def _turns(self, stop: threading.Event) -> None:
        pause = LOOK_SECONDS
        while not stop.is_set():
            try:
                wait = self.turn()
                pause = LOOK_SECONDS
            except DATABASE_AWAY as error:
                log.warning("Postgres is away, webhooks wait", seconds=pause, exc_info=error)
                connections.close_all()
                stop.wait(pause)
                pause = min(pause * 2, AWAY_PAUSE_MAX_SECONDS)
                continue
            if wait:
                self._wait(wait)

    def turn(self) -> float:
        """How long the next one can wait."""
        busy = self._mark()
        fanned = fan_out()
        for claimed in self._signed(claims.claim_deliveries()):
            self._loop.call_soon_threadsafe(self._begin, *claimed)
        if not fanned.is_all:
            return 0.0
        return BUSY_SECONDS if busy else LOOK_SECONDS

    def _wait(self, seconds: float) -> None:
        try:
            self._unmarked.append(self._came.get(timeout=seconds))
        except queue.Empty:
            return

    # What came of attempts.

    def _mark(self) -> bool:
        """Whether some have to come again, since their endpoint's row is locked."""
        while not self._came.empty():
            self._unmarked.append(self._came.get())
        again: list[_Came] = []
        while self._unmarked:
            came = self._unmarked[0]
            try:
                if self._written(came) is Marked.BUSY:
                    again.append(came)
            except Exception as error:  # one that cannot be marked holds up no other; its lease runs out
                if postgres.is_away(error):
                    raise
                log.exception("a mark failed", delivery_id=str(came.claimed.delivery_id), exc_info=error)
            self._unmarked.pop(0)  # only now: a database that goes away while it is marked leaves it here
        self._unmarked = again
        return bool(again)

    def _written(self, came: _Came) -> Marked:
        if came.attempt is None:
            if came.has_failed:
                _put_off_delivery(came.claimed)
            else:
                claims.give_back([came.claimed])
            return Marked.DONE
        marked = marks.mark_delivery(came.claimed, came.attempt)
        if marked is Marked.LOST:
            metrics.MARKS_LOST.inc()
        if marked is Marked.DONE:
            _count_delivery_attempt(came.claimed, came.attempt)
        return marked

    # Attempts.

    def _signed(self, claimed: Sequence[ClaimedDelivery]) -> list[tuple[ClaimedDelivery, SealedLetter, float]]:
        """With the secrets that sign now. What cannot be signed is put off, and counts no attempt."""
        until = time.monotonic() + claims.LEASE_SECONDS - delivery.WHOLE_SECONDS
        found: list[tuple[ClaimedDelivery, SealedLetter, float]] = []
        for one in claimed:
            try:
                letter = _letter(one)
            except Exception as error:  # one that cannot be made up holds up no other
                if postgres.is_away(error):
                    raise
                log.exception("a webhook cannot be made up", delivery_id=str(one.delivery_id), exc_info=error)
                _put_off_delivery(one)
                continue
            if letter is not None:
                found.append((one, letter, until))
        return found

    def _begin(self, claimed: ClaimedDelivery, letter: SealedLetter, until: float) -> None:
        """On the loop."""
        self._in_flight[claimed] = self._loop.create_task(self._attempt(claimed, letter, until))

    async def _attempt(self, claimed: ClaimedDelivery, letter: SealedLetter, until: float) -> None:
        came: AttemptMade | None = None
        has_failed = False
        try:
            # A sender that was frozen after its claim: the lease would end before the attempt does.
            if time.monotonic() < until:
                world = self._world
                network = world.doubtful if claimed.doubtful else world.proven
                with spans.telling_span(claimed.payload, tenant_id=claimed.tenant_id) as answered:
                    came = await delivery.attempt_delivery(letter, rules=world.rules, network=network, tls=world.tls)
                    answered(came.status_code)
        except Exception as error:  # a fault of ours is this attempt's alone
            has_failed = True
            log.exception("a webhook attempt failed", delivery_id=str(claimed.delivery_id), exc_info=error)
        finally:
            self._in_flight.pop(claimed, None)
            self._came.put(_Came(claimed, came, has_failed))

    # The end.

    def _end(self) -> None:
        until = time.monotonic() + END_SECONDS
        while self._in_flight and time.monotonic() < until:
            self._wait(BUSY_SECONDS)
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()
        try:
            while self._mark() and time.monotonic() < until:
                time.sleep(BUSY_SECONDS)
        except DATABASE_AWAY as error:
            log.warning("Postgres is away at the end: leases of webhooks run out", exc_info=error)

    async def _cut(self) -> None:
        tasks = list(self._in_flight.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _letter(claimed: ClaimedDelivery) -> SealedLetter | None:
    try:
        secrets = signing_secrets.live_secrets(claimed.endpoint_id, now=clock.now())
    except (encryption.Unreadable, encryption.NoEncryptionKey) as error:
        log.error("a webhook cannot be signed", endpoint_id=str(claimed.endpoint_id), exc_info=error)  # noqa: TRY400
        secrets = []
    if not secrets:
        metrics.UNSIGNED.inc()
        _put_off_delivery(claimed)
        return None
    message = claimed.message()
    return SealedLetter(
        url=claimed.url,
        webhook_id=bodies.webhook_id(message),
        body=bodies.webhook_body_of(message),
        secrets=tuple(secrets),
        tenant_id=claimed.tenant_id,
    )


def _put_off_delivery(claimed: ClaimedDelivery) -> None:
    """No attempt was made, by a fault that a person has to see to: keys that are missing, or a fault of ours."""
    ours = WebhookDelivery.objects.filter(lease_token=claimed.lease_token, delivery_id=claimed.delivery_id)
    ours.filter(next_attempt_at__isnull=False).update(next_attempt_at=Now() + PUT_OFF)
    claims.give_back([claimed])


def _count_delivery_attempt(claimed: ClaimedDelivery, came: AttemptMade) -> None:
    refused = "refused" if came.status_code is not None else "unanswered"
    metrics.ATTEMPTS.labels("delivered" if came.is_success else refused).inc()
    metrics.ATTEMPT_SECONDS.observe(came.ms / 1_000)
    if claimed.attempts == 0 and claimed.due_at - claimed.at < timedelta(seconds=60):
        waited = (clock.now() - claimed.at).total_seconds() - came.ms / 1_000
        metrics.FIRST_ATTEMPT_SECONDS.observe(max(waited, 0.0))
