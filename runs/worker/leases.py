"""The leases of this process's runs: taken at the start, renewed until the claim, and watched. (DPP-31)

A lease is three things at once, and each keeps another actor away from a run at work:

    lease_expires_at in Postgres    the reaper      renewed each 30 s, all of a process in one statement
    lease:{run} in Redis            (the signal)    a cancel deletes it; looked at while it works, all with one MGET
    the message's visibility        other workers   extended each 30 s, ten a request

Postgres decides. A lease that is missing in Redis is a question, put to Postgres at once: a cancel has claimed the row
and its renewal fails, so the pack is stopped within two seconds; after a Redis that lost its data the renewal holds,
and from then on only the heartbeat watches over this run, thirty seconds apart. The key is never made again, for
its maker could undo a cancel that came in between.

A thread that cannot reach Postgres goes on trying and stops nobody: a run that the reaper takes meanwhile is lost by
its worker at the claim, which comes before any money.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from django.db import connections
from psycopg.errors import LockNotAvailable

from dpp_project.aws import receipt_handles
from dpp_project.constants import LEASE_HEARTBEAT_INTERVAL_SECONDS, LEASE_TTL_SECONDS, QUEUE_VISIBILITY_SECONDS
from dpp_project.processes.per_process import PerProcess
from dpp_project.stores import redis
from dpp_project.stores.lua import LuaScript
from dpp_project.stores.postgres import DATABASE_AWAY
from dpp_project.stores.redis import RedisError
from runs import transitions, turns
from runs.claims import Lease
from runs.lease_key import lease_key

if TYPE_CHECKING:
    import uuid

log = structlog.get_logger("dpp.lease")

WATCH_SECONDS: Final = 0.75
"""A run that is over within it costs no look at all, and a cancel is noticed within twice that."""
_RENEW: Final = LuaScript(Path(__file__).parents[1] / "lua" / "renew_lease.lua")


def take_run_lease(lease: Lease, *, fair_pass: int | None = None) -> bool:
    """The signal that a cancel takes away. Without Redis the run goes on without it.

    In the same trip the turn that it started in is noted: none that is drawn later is before it.
    """
    try:
        pipeline = redis.redis_client().pipeline(transaction=False)
        pipeline.set(lease_key(lease.run_id), lease.token, nx=True, ex=LEASE_TTL_SECONDS)
        if fair_pass is not None:
            turns.queue_note(pipeline, fair_pass=fair_pass)
        return bool(pipeline.execute()[0])
    except RedisError as error:
        log.warning("lease without its signal", run_id=str(lease.run_id), exc_info=error)
        return False


@dataclass(frozen=True, slots=True)
class WakingMessage:
    """What woke this worker, to be kept from others meanwhile."""

    queue_url: str
    receipt: str


@dataclass(slots=True, eq=False)
class HeldLease:
    """One lease while its run is at work. `lost` is final."""

    lease: Lease
    message: WakingMessage | None
    stop: Callable[[], None]
    has_signal: bool
    since: float
    lost: bool = False


class Keeper:
    """The leases of one process, and the one thread that looks after them while there are any."""

    def __init__(self, *, watch_seconds: float = WATCH_SECONDS, beat_seconds: float | None = None) -> None:
        self._watch_seconds = watch_seconds
        self._beat_seconds = LEASE_HEARTBEAT_INTERVAL_SECONDS if beat_seconds is None else beat_seconds
        self._held: dict[uuid.UUID, HeldLease] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def holding(
        self, lease: Lease, *, message: WakingMessage | None, stop: Callable[[], None], has_signal: bool
    ) -> Iterator[HeldLease]:
        """Until the block ends the lease is renewed; `stop` is called, from another thread, when it is lost.

        To be left before the claim: a claimed row has no lease to renew, and its worker has nothing to lose any more.
        """
        held = HeldLease(lease=lease, message=message, stop=stop, has_signal=has_signal, since=time.monotonic())
        with self._changed:
            self._held[lease.run_id] = held
            if self._thread is None:
                self._thread = threading.Thread(target=self._look_after, name="leases", daemon=True)
                self._thread.start()
            elif len(self._held) == 1:
                self._changed.notify()
        try:
            yield held
        finally:
            with self._changed:
                self._held.pop(lease.run_id, None)

    def _look_after(self) -> None:
        next_beat = time.monotonic() + self._beat_seconds
        while True:
            with self._changed:
                if not self._held:
                    self._changed.wait()
                    next_beat = time.monotonic() + self._beat_seconds
            time.sleep(self._watch_seconds)
            held = self._now_held()
            try:
                if time.monotonic() >= next_beat:
                    next_beat += self._beat_seconds
                    self.beat(held)
                grown = time.monotonic() - self._watch_seconds
                self.watch([one for one in held if one.since <= grown])
            except Exception as error:  # the thread must go on: without it each lease runs out
                log.exception("leases not looked after, trying again", exc_info=error)

    def _now_held(self) -> list[HeldLease]:
        with self._changed:
            return [held for held in self._held.values() if not held.lost]

    def beat(self, held: Iterable[HeldLease]) -> None:
        """Renew everywhere: Postgres first, and nothing elsewhere for what is lost there."""
        mine = self._confirmed(held)
        signalled = [one for one in mine if one.has_signal]
        if signalled:
            try:
                _RENEW(
                    redis.redis_client(),
                    keys=[lease_key(one.lease.run_id) for one in signalled],
                    args=[LEASE_TTL_SECONDS, *(one.lease.token for one in signalled)],
                )
            except RedisError as error:
                log.warning("signals of leases not renewed", count=len(signalled), exc_info=error)
        by_queue: dict[str, list[str]] = {}
        for one in mine:
            if one.message is not None:
                by_queue.setdefault(one.message.queue_url, []).append(one.message.receipt)
        for queue_url, handles in by_queue.items():
            receipt_handles.keep_receipts(queue_url, handles, seconds=QUEUE_VISIBILITY_SECONDS)

    def watch(self, held: Iterable[HeldLease]) -> None:
        """Ask Postgres about each lease whose signal is gone."""
        signalled = [one for one in held if one.has_signal and not one.lost]
        if not signalled:
            return
        try:
            found = redis.redis_client().mget([lease_key(one.lease.run_id) for one in signalled])
        except RedisError as error:
            log.warning("signals of leases not read", count=len(signalled), exc_info=error)
            return
        tokens = [str(token) if token is not None else None for token in found]
        silent = [one for one, token in zip(signalled, tokens, strict=True) if token != one.lease.token]
        for one in self._confirmed(silent):
            one.has_signal = False
            log.warning("lease holds without its signal", run_id=str(one.lease.run_id))

    def _confirmed(self, held: Iterable[HeldLease]) -> list[HeldLease]:
        """Those that Postgres renewed. The others it denies are stopped; where it does not answer nothing is known."""
        asked = list(held)
        if not asked:
            return []
        try:
            renewed = transitions.renew(leases=[one.lease for one in asked])
        except DATABASE_AWAY as error:
            if len(asked) > 1 and isinstance(error.__cause__, LockNotAvailable):
                # Another session locks one of these rows; the others must not lose their leases by it.
                return [mine for one in asked for mine in self._confirmed([one])]
            log.warning("leases not renewed", count=len(asked), exc_info=error)
            return []
        finally:
            connections.close_all()  # back to the pool
        for one in asked:
            if one.lease.run_id not in renewed and self._still_holds(one):
                one.lost = True
                log.warning("lease lost, pack stopped", run_id=str(one.lease.run_id))
                one.stop()
        return [one for one in asked if one.lease.run_id in renewed]

    def _still_holds(self, one: HeldLease) -> bool:
        """A run that was claimed by this very worker meanwhile has nothing left to lose."""
        with self._changed:
            return self._held.get(one.lease.run_id) is one


keeper = PerProcess(Keeper)
