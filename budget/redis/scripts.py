"""The Lua scripts as typed calls: one round trip each, the epoch filled in, the reply as a typed answer.

Redis not answering is `Unavailable(REDIS)`: the script may have run, and asking again is safe because every script
answers a repeated call with its first result.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import redis
import structlog

from budget import outcomes
from budget.money import checked_credit_micros, checked_micros
from budget.outcomes import (
    CapsAnswer,
    Closed,
    CreditAnswer,
    HoldAnswer,
    RefundAnswer,
    SettleAnswer,
    Superseded,
    Unavailable,
    WriteAnswer,
    Written,
)
from budget.redis import connection, keys
from budget.redis.gate import Gate, GateClosed
from budget.redis.items import Batch
from budget.redis.windows import NO_CAPS_KNOWN, NOWHERE, PERIODS, CapPeriod, Counted, LeastRevisions, date_number
from dpp_project.processes.per_process import PerProcess
from dpp_project.stores.lua import LuaScript

log = structlog.get_logger("dpp.budget")

_LUA: Final = Path(__file__).parent.joinpath("lua")
RESERVE: Final = LuaScript(_LUA.joinpath("reserve.lua"))
SETTLE: Final = LuaScript(_LUA.joinpath("settle.lua"))
REFUND_FULL: Final = LuaScript(_LUA.joinpath("refund_full.lua"))
CREDIT: Final = LuaScript(_LUA.joinpath("credit.lua"))
REBUILD: Final = LuaScript(_LUA.joinpath("rebuild.lua"))
CAPS: Final = LuaScript(_LUA.joinpath("caps.lua"))

TypedAnswer = TypeVar("TypedAnswer")


class Scripts:
    """The money of one Redis server."""

    def __init__(self, client: redis.Redis, gate: Gate) -> None:
        self.client = client
        self.gate = gate

    def reserve(
        self,
        *,
        tenant_id: str,
        run_id: str,
        reserved_micros: int,
        created_at_ms: int,
        counted: Counted = NOWHERE,
        least: LeastRevisions = NO_CAPS_KNOWN,
    ) -> HoldAnswer:
        amount = str(checked_micros(reserved_micros))
        caps = [date_number(counted.day), str(least.tenant), str(least.key)]
        return self._call(
            RESERVE,
            [*_run_keys(tenant_id, run_id), *keys.scope_keys(tenant_id, counted.lineage_id)],
            lambda epoch: [tenant_id, amount, str(created_at_ms), run_id, epoch, *caps],
            outcomes.hold_answer,
        )

    def settle(self, *, tenant_id: str, run_id: str, charge_micros: int, counted: Counted = NOWHERE) -> SettleAnswer:
        charge = str(checked_micros(charge_micros, least=0))
        return self._call(
            SETTLE,
            [*_end_keys(tenant_id, run_id), *_scope_keys_moved_by_script(tenant_id, counted)],
            lambda epoch: [charge, tenant_id, run_id, epoch, date_number(counted.day)],
            outcomes.settle_answer,
        )

    def refund_full(self, *, tenant_id: str, run_id: str, was_held: bool, counted: Counted = NOWHERE) -> RefundAnswer:
        held = "held" if was_held else ""
        return self._call(
            REFUND_FULL,
            [*_end_keys(tenant_id, run_id), *_scope_keys_moved_by_script(tenant_id, counted)],
            lambda epoch: [tenant_id, run_id, epoch, held, date_number(counted.day)],
            outcomes.refund_answer,
        )

    def credit(
        self, *, tenant_id: str, entry_id: str, amount_micros: int, epoch: str, counted: Counted = NOWHERE
    ) -> CreditAnswer:
        """`counted` is the run's whose charge the entry gives back; an entry without a run counts nowhere.

        `epoch` was read before the pending row was: it is never renewed here, a newer one may have counted it.
        """
        amount = str(checked_credit_micros(amount_micros))
        names = [
            keys.balance_key(tenant_id),
            keys.credit_key(entry_id),
            keys.EPOCH,
            keys.seq_key(tenant_id),
            keys.gate_key(tenant_id),
            keys.EVIDENCE,
            *_scope_keys_moved_by_script(tenant_id, counted),
        ]
        try:
            words = CREDIT(self.client, keys=names, args=[tenant_id, amount, entry_id, epoch, date_number(counted.day)])
        except redis.RedisError:
            return Unavailable(Closed.REDIS)
        return outcomes.credit_answer(words)

    def put_caps(
        self,
        *,
        tenant_id: str,
        lineage_id: str | None,
        revision: int,
        limits: Mapping[CapPeriod, int | None],
        new: bool,
    ) -> CapsAnswer:
        """Put the limits of a committed change in force. Key: the revision; asked again it changes nothing.

        `new`: no run of this scope can exist yet, as of a key that is not shown yet. Else an absent scope is
        CapsAbsent. Dying before this leaves the change to the next hold that brings its revision.
        """
        words = ["" if (limit := limits[period]) is None else str(checked_micros(limit, least=0)) for period in PERIODS]
        return self._call(
            CAPS,
            [keys.caps_key(tenant_id, lineage_id), keys.EPOCH, keys.seq_key(tenant_id), keys.gate_key(tenant_id)],
            lambda epoch: [tenant_id, epoch, str(revision), *words, "new" if new else "known"],
            lambda answer: outcomes.caps_answer(answer, revision=revision),
        )

    def let_credits_expire(self, entry_ids: Sequence[str]) -> None:
        """Their pending rows are gone: a receipt is kept for a late double of its credit, and then no longer.

        Dying before this, or without Redis, receipts of some hundred bytes stay, and do no harm.
        """
        try:
            with self.client.pipeline(transaction=False) as pipe:
                for entry_id in entry_ids:
                    pipe.expire(keys.credit_key(entry_id), keys.RECEIPT_TTL_SECONDS)
                pipe.execute()
        except redis.RedisError as error:
            log.warning("the receipts of credits stay", credits=len(entry_ids), exc_info=error)

    def tell(self, *commits: str) -> None:
        """Leave evidence of what Postgres has committed where no script did; what Redis misses is not asked for."""
        try:
            with self.client.pipeline(transaction=False) as pipe:
                pipe.lpush(keys.EVIDENCE, *commits)
                pipe.ltrim(keys.EVIDENCE, 0, keys.EVIDENCE_MAX - 1)
                pipe.execute()
        except redis.RedisError as error:
            log.warning("no evidence was left", commits=len(commits), exc_info=error)

    def write(self, *, client: redis.Redis, token: str, batches: Sequence[Batch]) -> WriteAnswer:
        """Batches of a rebuild in one trip, over the rebuild's own connection. A RedisError is the caller's.

        Superseded where one of them was: its gate is another's, and so is every tenant's behind it.
        """
        commands = [REBUILD.command(keys=_batch_keys(one), args=_batch_arguments(one, token)) for one in batches]
        answers = connection.pipelined_answers(client, commands, before=REBUILD.text)
        outcome = [outcomes.write_answer(words) for words in answers]
        return Superseded() if Superseded() in outcome else Written()

    def _call(
        self,
        script: LuaScript,
        names: Sequence[str],
        arguments: Callable[[str], list[str]],
        answer_of: Callable[[Sequence[str]], TypedAnswer],
    ) -> TypedAnswer | Unavailable:
        try:
            epoch = self.gate.epoch()
            answer = answer_of(script(self.client, keys=names, args=arguments(epoch)))
            if answer == Unavailable(Closed.EPOCH):
                # Another epoch: rebuilt since this process last looked, or closed. Looking again tells which.
                renewed = self.gate.renewed()
                if renewed != epoch:
                    answer = answer_of(script(self.client, keys=names, args=arguments(renewed)))
        except GateClosed:
            return Unavailable(Closed.EPOCH)
        except redis.RedisError:
            return Unavailable(Closed.REDIS)
        return answer


def _batch_keys(batch: Batch) -> list[str]:
    tenant_id = batch.tenant_id
    names = [
        keys.balance_key(tenant_id),
        keys.holds_key(tenant_id),
        keys.EPOCH,
        keys.seq_key(tenant_id),
        keys.gate_key(tenant_id),
    ]
    return names + [name for item in batch.items for name in item.key_pair(tenant_id)]


def _batch_arguments(batch: Batch, token: str) -> list[str]:
    arguments = [batch.tenant_id, token, str(batch.balance_micros), "begin" if batch.begin else "more"]
    return arguments + [
        word for item in batch.items for word in (item.kind, item.id, str(item.first), str(item.second))
    ]


def _run_keys(tenant_id: str, run_id: str) -> list[str]:
    return [
        keys.balance_key(tenant_id),
        keys.reserve_key(run_id),
        keys.holds_key(tenant_id),
        keys.receipt_key(run_id),
        keys.EPOCH,
        keys.seq_key(tenant_id),
        keys.gate_key(tenant_id),
    ]


def _end_keys(tenant_id: str, run_id: str) -> list[str]:
    return [*_run_keys(tenant_id, run_id), keys.EVIDENCE]


def _scope_keys_moved_by_script(tenant_id: str, counted: Counted) -> list[str]:
    """The scopes that what happens to a run moves; none where it counts nowhere."""
    return [] if counted.day is None else keys.scope_keys(tenant_id, counted.lineage_id)


@PerProcess
def shared_scripts() -> Scripts:
    """This process's scripts, on its guarded connections."""
    client = connection.budget_client()
    return Scripts(client, Gate(client))


def forget_scripts() -> None:
    """Drop connections, scripts and the known epoch: after a fork, or when the server has moved."""
    shared_scripts.forget()
    connection.disconnect_budget_redis()
