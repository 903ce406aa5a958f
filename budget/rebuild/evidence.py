"""Does Postgres still know what it had committed? A failover to a replica that lagged, or a restored copy, goes back in
time: runs and entries are gone that customers know of, and nothing in Postgres itself shows it.

Redis remembers the newest commits it heard of, a thousand of them in `budget:evidence`, by scripts that run anyway:

    run:{run_id}        the row is RESERVED         left with the mapping of the run's key
    end:{run_id}        the row is claimed          left by the settle or refund that the claim decided
    entry:{entry_id}    the entry is in the ledger  left by its credit

Each is left after its commit, and none of these facts is ever undone, so one that Postgres does not know was lost. Of
anything else in the list, as a later release might leave it, nothing can be asked: it is passed over and logged. What
a rollback loses is the end of the order of commits; of that end the thousand newest are more than can have overtaken
each other. Redis lagging behind, or older, is no fault: what it forgot is not asked for.

Asked is each new connection of a pool, before anything runs on it, unless it leads to the very server process that
knew all of it (a running Postgres cannot go back), and where Redis did not answer then, before this process moves money
again; each rebuild, before it reads the ledger; and the gate's watch.
Where anything is missing all money is closed, and stays closed: nothing is rebuilt from such a ledger until an operator
has brought the right Postgres back, or accepted the loss (budget/ledger_loss.py).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import psycopg
import redis
import structlog
from django.db import Error, connection
from psycopg import errors

from budget import ports
from budget.ports import Ask
from budget.redis import keys, scripts
from budget.redis.gate import LEDGER_BEHIND, GateClosed

log = structlog.get_logger("dpp.budget")

SHOWN_MAX: Final = 20
_READABLE: Final = re.compile(r"(run|end|entry):[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SERVER: Final = "SELECT pg_postmaster_start_time()::text || ' ' || coalesce(inet_server_port(), 0)"
_ENTRIES: Final = "SELECT entry_id::text FROM ledger_entries WHERE entry_id = ANY(%s::uuid[])"


class LedgerBehind(RuntimeError):  # noqa: N818  named for what happened
    """Postgres lacks what it had committed. `missing` names it as the evidence does, the newest first."""

    def __init__(self, missing: Sequence[str]) -> None:
        self.missing = tuple(missing)
        super().__init__(f"Postgres lacks {MissingCommits.of(missing)} that it had committed: it went back in time")


@dataclass(frozen=True, slots=True)
class MissingCommits:
    """What is missing, as far as the evidence reaches."""

    runs: int
    ends: int
    entries: int

    @classmethod
    def of(cls, missing: Iterable[str]) -> "MissingCommits":
        kinds = [each.partition(":")[0] for each in missing]
        return cls(kinds.count("run"), kinds.count("end"), kinds.count("entry"))

    def __str__(self) -> str:
        return f"{self.runs} runs, {self.ends} ends of runs and {self.entries} entries"


def heard_commits(client: redis.Redis) -> list[str]:
    """What Redis heard of, the newest first. To be read before the ledger is, and asked after it."""
    found: Any = client.lrange(keys.EVIDENCE, 0, -1)
    return list(found)


def missing_commits(ask: Ask, evidence: Sequence[str]) -> list[str]:
    """Of this evidence, what Postgres does not know."""
    read = [each for each in evidence if _READABLE.fullmatch(each)]
    if strange := [each for each in evidence if not _READABLE.fullmatch(each)]:
        log.warning("evidence of commits that cannot be read", count=len(strange), newest=strange[:SHOWN_MAX])
    named: dict[str, list[str]] = {"run": [], "end": [], "entry": []}
    for each in read:
        kind, _, name = each.partition(":")
        named[kind].append(name)
    run_ids = sorted({*named["run"], *named["end"]})
    try:
        runs = ports.open_runs().standing(ask, run_ids) if run_ids else {}
        entries = {row[0] for row in ask(_ENTRIES, [named["entry"]])} if named["entry"] else set()
    except errors.UndefinedTable:
        return read  # a Postgres without our tables has lost all of it
    known = {f"run:{run_id}" for run_id in runs} | {f"entry:{entry_id}" for entry_id in entries}
    known |= {f"end:{run_id}" for run_id, is_claimed in runs.items() if is_claimed}
    return [each for each in read if each not in known]


def lost_commits(client: redis.Redis) -> list[str]:
    """What Redis heard of and Postgres lacks; where it lacks anything, all money is closed."""
    gone = missing_commits(_ask_django, heard_commits(client))
    if gone:
        _close(client, gone)
    return gone


def require_commits(client: redis.Redis) -> None:
    """Raises LedgerBehind, all money closed, where Postgres lacks anything that Redis heard of."""
    if gone := lost_commits(client):
        raise LedgerBehind(gone)


def replace_evidence(client: redis.Redis, missing: Sequence[str], by: Sequence[str]) -> None:
    """An operator has accepted that this is missing. What else was heard stays, and is asked for as before."""
    with client.pipeline(transaction=True) as pipe:
        for each in missing:
            pipe.lrem(keys.EVIDENCE, 0, each)
        if by:
            pipe.lpush(keys.EVIDENCE, *by)
        pipe.ltrim(keys.EVIDENCE, 0, keys.EVIDENCE_MAX - 1)
        pipe.execute()


def ask_new_connection(new: psycopg.Connection[Any]) -> None:
    """The first thing asked of each connection of a pool. It closes the money, and refuses no connection.

    Where Redis does not answer it cannot be asked. No money moves until it does, and then this process asks before any
    that it moves.
    """

    def ask(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return new.execute(statement, values).fetchall()

    ((server,),) = ask(_SERVER, ())
    try:
        client = scripts.shared_scripts().client
        if client.get(keys.POSTGRES) == server:
            return
        if gone := missing_commits(ask, heard_commits(client)):
            _close(client, gone)
        else:
            client.set(keys.POSTGRES, server)
    except redis.RedisError as error:
        log.warning("a new connection could not be asked what Postgres knows", exc_info=error)
        scripts.shared_scripts().gate.ask_first(partial(_ask_late))


def _ask_late() -> None:
    """By a connection that the caller's thread has by now: those from before Postgres went are broken."""
    try:
        lost_commits(scripts.shared_scripts().client)
    except (Error, psycopg.Error) as error:
        raise GateClosed("what Postgres knows could not be asked") from error


def _ask_django(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def _close(client: redis.Redis, gone: Sequence[str]) -> None:
    gate = scripts.shared_scripts().gate
    try:
        gate.looked_up()
    except GateClosed as closed:
        if closed.ledger_is_behind:
            return
    gate.close(client, why=LEDGER_BEHIND)
    log.error(
        "Postgres went back in time, money is closed",
        missing=str(MissingCommits.of(gone)),
        newest=list(gone[:SHOWN_MAX]),
        told=len(heard_commits(client)),
    )
