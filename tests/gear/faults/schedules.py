"""Several actors of the real code, one moving at a time, in every order that few enough preemptions allow.

Each actor is a thread with a connection of its own, held before every statement to Postgres, every command to Redis and
every call to the bucket. Which one goes on is the schedule; a schedule is repeated from its list of choices.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import redis
from django.db import connection, connections

STEP_SECONDS = 20.0

_acting = threading.local()


@dataclass(frozen=True)
class Step:
    """Who could have gone on, who did, and over which effect."""

    ready: tuple[int, ...]
    chosen: int
    effect: str


def pause(effect: str) -> None:
    """Called before an effect: an actor waits for its turn, everybody else goes on."""
    actor: Actor | None = getattr(_acting, "actor", None)
    if actor is not None:
        actor.wait_for_turn(effect)


class _SentHome(BaseException):
    """The play is over before this actor's part was."""


class Actor:
    """A thread that plays one part after another."""

    def __init__(self) -> None:
        self.effect: str | None = None
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

    def wait_for_turn(self, effect: str) -> None:
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
        while ready := tuple(at for at, actor in enumerate(actors) if actor.effect is not None):
            before = steps[-1].chosen if steps else ready[0]
            chosen = choices[len(steps)] if len(steps) < len(choices) else before if before in ready else ready[0]
            assert chosen in ready, (choices, steps)
            steps.append(Step(ready, chosen, str(actors[chosen].effect)))
            actors[chosen].go_on()
        return steps


def explore(
    play: Callable[[Sequence[int]], list[Step]], *, preemptions: int, prefix: tuple[int, ...] = ()
) -> Iterator[list[Step]]:
    """Every schedule once that leaves an actor which could have gone on at most so many times."""
    steps = play(prefix)
    yield steps
    chosen = tuple(step.chosen for step in steps)
    for at in range(len(prefix), len(steps)):
        for other in steps[at].ready:
            branch = (*chosen[:at], other)
            if other != chosen[at] and _preemptions(steps, branch) <= preemptions:
                yield from explore(play, preemptions=preemptions, prefix=branch)


def _preemptions(steps: Sequence[Step], choices: Sequence[int]) -> int:
    return sum(choices[at] != choices[at - 1] and choices[at - 1] in steps[at].ready for at in range(1, len(choices)))


def _before_statement(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001  Django's
    """Not within a transaction that holds rows: a rival would wait for them, and no order lies there."""
    if not (connection.in_atomic_block and getattr(_acting, "holds_rows", False)):
        pause(sql.split(None, 1)[0])
    _acting.holds_rows = connection.in_atomic_block
    return execute(sql, params, many, context)


def _held(real: Callable[..., Any]) -> Callable[..., Any]:
    def held(self: Any, *arguments: Any, **options: Any) -> Any:
        pause(f"redis {arguments[0] if arguments else 'pipeline'}")
        return real(self, *arguments, **options)

    return held
