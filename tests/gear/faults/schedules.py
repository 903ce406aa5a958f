"""Several actors of the real code, one moving at a time, in every order that few enough preemptions allow.

Each actor is a thread with a connection of its own, held before every statement to Postgres, every command to Redis and
every call to the bucket. Which one goes on is the schedule; a schedule is repeated from its list of choices. Which of
them are played, of those that show the same, says orders.py.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

import redis
from django.db import connection, connections
from psycopg.pq import TransactionStatus

from budget.redis import gate, keys
from tests.gear.faults.orders import Effect, Step

STEP_SECONDS = 20.0

_acting = threading.local()


def pause(what: str, *, reads: Iterable[str] = (), writes: Iterable[str] = ()) -> None:
    """Called before an effect: an actor waits for its turn, everybody else goes on."""
    actor: Actor | None = getattr(_acting, "actor", None)
    if actor is not None:
        actor.wait_for_turn(Effect(what, frozenset(reads), frozenset(writes)))


class _SentHome(BaseException):
    """The play is over before this actor's part was."""


class Actor:
    """A thread that plays one part after another."""

    def __init__(self) -> None:
        self.effect: Effect | None = None
        self.error: BaseException | None = None
        self._part: Callable[[], object] | None = None
        self._sent_home = False
        self._turn = threading.Semaphore(0)
        self._arrived = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._play, daemon=True)
        self._thread.start()

    def begin(self, part: Callable[[], object]) -> None:
        """Up to before its first effect."""
        self._part, self.error = part, None
        self.go_on()

    def go_on(self) -> None:
        """Over the effect it stands before, up to the next one or its end."""
        self._turn.release()
        if not self._arrived.acquire(timeout=STEP_SECONDS):
            raise AssertionError(f"an actor does not come back from {self.effect}")
        if self.error is not None:
            raise self.error

    def wait_for_turn(self, effect: Effect) -> None:
        self.effect = effect
        self._arrived.release()
        self._turn.acquire()
        if self._sent_home:
            raise _SentHome

    def leave(self) -> None:
        self._part, self._sent_home = None, True
        self._turn.release(2)  # out of the part it may stand in, and out of the waiting for another
        self._thread.join(STEP_SECONDS)

    def _play(self) -> None:
        with connection.execute_wrapper(_before_statement):
            while True:
                self._turn.acquire()
                if self._part is None:
                    break
                _acting.actor = self
                try:
                    self._part()
                except BaseException as error:  # noqa: BLE001  it is raised again where the schedule is run
                    self.error = error
                _acting.actor = None
                self.effect = None
                self._arrived.release()
        connections.close_all()


class Stage:
    """As many actors as wanted; `with` puts the holds in place."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._actors: list[Actor] = []

    @contextmanager
    def set_up(self) -> Iterator["Stage"]:
        with ExitStack() as stack:
            stack.callback(logging.disable, logging.root.manager.disable)
            logging.disable(logging.INFO)  # pytest would keep every line of ten thousand plays
            stack.enter_context(patch.object(redis.Redis, "execute_command", _held(redis.Redis.execute_command)))
            stack.enter_context(patch.object(redis.client.Pipeline, "execute", _held(redis.client.Pipeline.execute)))
            self._actors = [Actor() for _ in range(self._count)]
            try:
                yield self
            finally:
                for actor in self._actors:
                    actor.leave()

    def play(self, parts: Sequence[Callable[[], object]], choices: Sequence[int]) -> list[Step]:
        """The parts in the order of the choices; when those run out, whoever goes on goes on to the end."""
        steps: list[Step] = []
        actors = self._actors[: len(parts)]
        for actor, part in zip(actors, parts, strict=True):
            actor.begin(part)
        while before := {at: actor.effect for at, actor in enumerate(actors) if actor.effect is not None}:
            ready = tuple(before)
            last = steps[-1].chosen if steps else ready[0]
            chosen = choices[len(steps)] if len(steps) < len(choices) else last if last in before else ready[0]
            assert chosen in before, (choices, steps)
            steps.append(Step(before, chosen))
            actors[chosen].go_on()
        return steps


# What each effect touches. Too much costs plays; too little would leave out orders that differ.

POSTGRES: Final = "postgres"
_LOCKING: Final = ("FOR UPDATE", "FOR NO KEY UPDATE", "FOR SHARE", "FOR KEY SHARE", "PG_", "NEXTVAL")
_CHECKS_THE_GATE: Final = gate.CHECK.command(keys=[])[1]
_MOVES_THE_GATE: Final = frozenset(script.command(keys=[])[1] for script in (gate.OPEN, gate.CLOSE))
_READS_ALL: Final = frozenset({"GET", "MGET", "EXISTS"})
_READS_FIRST: Final = frozenset({"HGET", "HGETALL", "HLEN"})
_WRITES_ALL: Final = frozenset({"DEL"})
_WRITES_FIRST: Final = frozenset({"SET", "EXPIRE"})


def _before_statement(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001  Django's
    """Before a transaction, and not within it, where it holds rows: a rival would wait for them, and no order lies
    there. All of Postgres is one object, which only a statement of its own that merely reads does not write.
    """
    if connection.connection.info.transaction_status == TransactionStatus.IDLE:
        reads = not connection.in_atomic_block and _merely_reads(sql)
        pause(sql.split(None, 1)[0], **{"reads" if reads else "writes": [POSTGRES]})
    return execute(sql, params, many, context)


def _merely_reads(sql: str) -> bool:
    words = sql.upper()
    return words.lstrip().startswith("SELECT") and not any(word in words for word in _LOCKING)


def _held(real: Callable[..., Any]) -> Callable[..., Any]:
    def held(self: Any, *words: Any, **options: Any) -> Any:
        if getattr(_acting, "actor", None) is not None:
            commands = [words] if words else [command[0] for command in self.command_stack]
            touched = [_touched(command) for command in commands]
            reads, writes = (set().union(*sets) for sets in zip(*touched, strict=True))
            pause(f"redis {words[0] if words else 'pipeline'}", reads=reads, writes=writes)
        return real(self, *words, **options)

    return held


def _touched(words: Sequence[Any]) -> tuple[set[str], set[str]]:
    """The keys that a command of Redis reads and writes. Of a script all that it names, but for the gate, which every
    script reads.
    """
    name, rest = str(words[0]).upper(), [str(word) for word in words[1:]]
    if name == "SCRIPT LOAD":
        return set(), set()
    if name in ("EVAL", "EVALSHA"):
        named = set(rest[2 : 2 + int(rest[1])])
        only_read = named if rest[0] == _CHECKS_THE_GATE else named - _written_by(rest[0], named)
        return only_read, named - only_read
    if name in _READS_ALL | _READS_FIRST:
        return set(rest if name in _READS_ALL else rest[:1]), set()
    assert name in _WRITES_ALL | _WRITES_FIRST, f"say which keys {name} touches"
    return set(), set(rest if name in _WRITES_ALL else rest[:1])


def _written_by(script: str, named: set[str]) -> set[str]:
    return named if script in _MOVES_THE_GATE else named - {keys.EPOCH}
