"""At one chosen effect of an action its process dies, or somebody else comes in between. In process, so it is quick.

An effect is a statement to Postgres, a command or pipeline to Redis, a call to SQS or S3. A dead process has no further
effects, not even from its `finally` blocks: each of them dies again, until the block ends.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from unittest.mock import patch

import redis
from botocore.client import BaseClient
from django.db import connection, connections

from budget.redis import scripts
from dpp_project.aws.connections import Connections
from dpp_project.stores import redis as dpp_redis
from tenants import authentication
from tests.gear.builders.recovery import Died

Answer = TypeVar("Answer")

RIVAL_SECONDS = 60.0


@dataclass
class Interruption:
    """Of the action on this thread, at its effect number `at` (from 0). Without a rival it is a death."""

    at: int
    rival: Callable[[], object] | None = None
    after: bool = False
    count: int = 0
    struck: bool = False
    dead: bool = False
    errors: list[BaseException] = field(default_factory=list)

    def around(self, perform: Callable[[], Answer]) -> Answer:
        if self.dead:
            raise Died
        number, self.count = self.count, self.count + 1
        if self.struck or number < self.at:
            return perform()
        if self.rival is not None:
            # A transaction's locks would keep the rival waiting for us while we wait for it: after it, then.
            if not connection.in_atomic_block:
                self.struck = True
                beside(self.rival)
            return perform()
        self.struck = self.dead = True
        if self.after:
            perform()
        raise Died


def beside(rival: Callable[[], object]) -> None:
    """On a thread with a connection of its own; what goes wrong there is raised here."""
    errors: list[BaseException] = []

    def act() -> None:
        try:
            rival()
        except BaseException as error:  # noqa: BLE001  raised again below
            errors.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=act)
    thread.start()
    thread.join(RIVAL_SECONDS)
    assert not thread.is_alive(), "a rival hangs"
    if errors:
        raise errors[0]


@contextmanager
def interrupted(interruption: Interruption) -> Iterator[Interruption]:
    """Every effect of this thread passes by it. Afterwards a dead process has forgotten what it knew."""
    mine = threading.get_ident()

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def passing(*arguments: Any, **options: Any) -> Any:
            if threading.get_ident() != mine:
                return real(*arguments, **options)
            return interruption.around(lambda: real(*arguments, **options))

        return passing

    with ExitStack() as stack:
        stack.enter_context(connection.execute_wrapper(watched(_execute)))
        for owner, name in (
            (redis.Redis, "execute_command"),
            (redis.client.Pipeline, "execute"),
            (Connections, "exchange"),
            (BaseClient, "_make_api_call"),
        ):
            stack.enter_context(patch.object(owner, name, watched(getattr(owner, name))))
        with contextlib.suppress(Died):
            yield interruption
    if interruption.dead:
        _forget_everything()


def _execute(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001  Django's
    return execute(sql, params, many, context)


def _forget_everything() -> None:
    """A session that ends gives back its locks; a new process knows no epoch and no key."""
    disconnect()
    authentication.memory.forget()


def disconnect() -> None:
    """From Postgres and Redis: nothing that was open here is, and money's client is made anew."""
    for one in connections.all(initialized_only=True):
        one.close()
        one.close_pool()  # type: ignore[attr-defined]  # postgresql's
    dpp_redis.disconnect_redis()
    scripts.forget_scripts()
