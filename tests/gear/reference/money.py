"""Two sides that keep the money's contract: the Lua scripts on a real server, and the pure model."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import redis

from budget.redis import keys, scripts
from budget.redis.items import RebuildItem
from budget.redis.windows import PERIODS, CapPeriod, Counted, date_number
from tests.gear.reference.money_model import Model

# What a key holds, and the seconds it has left, up to the next ten minutes: None for a key that stays.
State = dict[str, tuple[object, int | None]]

TENANT: Final = "t_one"
OTHER: Final = "t_two"
RUN: Final = "00000000-0000-4000-8000-000000000001"
ENTRY: Final = "00000000-0000-4000-8000-0000000000e1"

_DUMP: Final = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local value
  if redis.call('TYPE', key).ok == 'hash' then
    local flat = redis.call('HGETALL', key)
    value = {}
    for at = 1, #flat, 2 do value[flat[at]] = flat[at + 1] end
  elseif redis.call('TYPE', key).ok == 'list' then
    value = redis.call('LRANGE', key, 0, -1)
  else
    value = redis.call('GET', key)
  end
  found[key] = {value, redis.call('TTL', key)}
end
return cjson.encode(found)
"""
_PASS: Final = """
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 then redis.call('PEXPIRE', key, math.max(0, left - 1000 * tonumber(ARGV[1]))) end
end
"""


Stored = str | dict[str, str] | list[str]


class Side(Protocol):
    def call(self, name: str, names: Sequence[str], arguments: Sequence[str]) -> list[str]: ...
    def put(self, key: str, value: Stored) -> None: ...
    def drop(self, key: str) -> None: ...
    def pass_seconds(self, seconds: int) -> None: ...
    def state(self) -> State: ...


@dataclass
class ModelSide:
    model: Model

    def call(self, name: str, names: Sequence[str], arguments: Sequence[str]) -> list[str]:
        answer: list[str] = getattr(self.model, name)(names, arguments)
        return list(answer)

    def put(self, key: str, value: Stored) -> None:
        self.drop(key)
        if isinstance(value, dict):
            self.model.hashes[key] = dict(value)
        elif isinstance(value, list):
            self.model.lists[key] = list(value)
        else:
            self.model.strings[key] = value

    def drop(self, key: str) -> None:
        self.model.strings.pop(key, None)
        self.model.hashes.pop(key, None)
        self.model.lists.pop(key, None)
        self.model.expires_in.pop(key, None)

    def pass_seconds(self, seconds: int) -> None:
        self.model.pass_seconds(seconds)

    def state(self) -> State:
        values: dict[str, object] = {**self.model.strings, **{key: dict(it) for key, it in self.model.hashes.items()}}
        values |= {key: list(it) for key, it in self.model.lists.items()}
        return {key: (value, _up_to_ten_minutes(self.model.expires_in.get(key, -1))) for key, value in values.items()}


SCRIPTS: Final = {
    "reserve": scripts.RESERVE,
    "settle": scripts.SETTLE,
    "refund_full": scripts.REFUND_FULL,
    "credit": scripts.CREDIT,
    "rebuild": scripts.REBUILD,
    "caps": scripts.CAPS,
}


class ScriptSide:
    """`texts` replaces our scripts by others, such as the document's own."""

    def __init__(self, client: redis.Redis, texts: dict[str, str] | None = None) -> None:
        self.client = client
        self._scripts = {
            name: client.register_script((texts or {}).get(name) or script.text) for name, script in SCRIPTS.items()
        }
        self._dump = client.register_script(_DUMP)
        self._pass = client.register_script(_PASS)

    def call(self, name: str, names: Sequence[str], arguments: Sequence[str]) -> list[str]:
        answer: list[str] = self._scripts[name](keys=names, args=arguments)
        return answer

    def put(self, key: str, value: Stored) -> None:
        self.client.delete(key)
        if isinstance(value, dict):
            self.client.hset(key, items=[part for pair in value.items() for part in pair])
        elif isinstance(value, list):
            self.client.rpush(key, *value)
        else:
            self.client.set(key, value)

    def drop(self, key: str) -> None:
        self.client.delete(key)

    def pass_seconds(self, seconds: int) -> None:
        self._pass(args=[seconds])

    def state(self) -> State:
        found = json.loads(self._dump())
        return {key: (value, _up_to_ten_minutes(left)) for key, (value, left) in found.items()}


def _up_to_ten_minutes(seconds: int) -> int | None:
    """A test takes a moment, on a slow machine a long one, and a real clock runs meanwhile."""
    return None if seconds < 0 else -(-seconds // 600) * 600


EPOCH: Final = "a" * 40 + ".first"


def open_tenant(side: Side, tenant: str = TENANT, *, balance: int = 1_000_000) -> None:
    side.put(keys.EPOCH, EPOCH)
    side.put(keys.balance_key(tenant), str(balance))


def run_keys(tenant: str = TENANT, run: str = RUN) -> list[str]:
    return [
        keys.balance_key(tenant),
        keys.reserve_key(run),
        keys.holds_key(tenant),
        keys.receipt_key(run),
        keys.EPOCH,
        keys.seq_key(tenant),
        keys.gate_key(tenant),
    ]


def end_keys(tenant: str = TENANT, run: str = RUN) -> list[str]:
    return [*run_keys(tenant, run), keys.EVIDENCE]


def refused(side: Side, ask: Callable[[], list[str]]) -> list[str]:
    """The answer of what must change nothing."""
    before = side.state()
    answer = ask()
    assert side.state() == before
    return answer


def scopes(tenant: str, counted: Counted | None) -> list[str]:
    """None: as a process asks that knows of no caps, without their keys."""
    return [] if counted is None else keys.scope_keys(tenant, counted.lineage_id)


def dated(counted: Counted | None) -> list[str]:
    return [] if counted is None else [date_number(counted.day)]


def reserve(
    side: Side,
    amount: str | int,
    *,
    tenant: str = TENANT,
    run: str = RUN,
    epoch: str = EPOCH,
    created: str = "1",
    counted: Counted | None = None,
    least: Sequence[int] = (),
) -> list[str]:
    names = [*run_keys(tenant, run), *scopes(tenant, counted)]
    more = [*dated(counted), *(str(revision) for revision in least)]
    return side.call("reserve", names, [tenant, str(amount), created, run, epoch, *more])


def settle(
    side: Side,
    charge: str | int,
    *,
    tenant: str = TENANT,
    run: str = RUN,
    epoch: str = EPOCH,
    counted: Counted | None = None,
) -> list[str]:
    names = [*end_keys(tenant, run), *scopes(tenant, counted)]
    return side.call("settle", names, [str(charge), tenant, run, epoch, *dated(counted)])


def refund(
    side: Side,
    *,
    tenant: str = TENANT,
    run: str = RUN,
    epoch: str = EPOCH,
    was_held: bool = False,
    counted: Counted | None = None,
) -> list[str]:
    names = [*end_keys(tenant, run), *scopes(tenant, counted)]
    held = ["held" if was_held else ""] if was_held or counted else []
    return side.call("refund_full", names, [tenant, run, epoch, *held, *dated(counted)])


def credit_keys(tenant: str = TENANT, entry: str = ENTRY) -> list[str]:
    return [
        keys.balance_key(tenant),
        keys.credit_key(entry),
        keys.EPOCH,
        keys.seq_key(tenant),
        keys.gate_key(tenant),
        keys.EVIDENCE,
    ]


def credit(
    side: Side,
    amount: str | int,
    *,
    tenant: str = TENANT,
    entry: str = ENTRY,
    epoch: str = EPOCH,
    counted: Counted | None = None,
) -> list[str]:
    names = [*credit_keys(tenant, entry), *scopes(tenant, counted)]
    return side.call("credit", names, [tenant, str(amount), entry, epoch, *dated(counted)])


def caps_keys(tenant: str = TENANT, lineage: str | None = None) -> list[str]:
    return [keys.caps_key(tenant, lineage), keys.EPOCH, keys.seq_key(tenant), keys.gate_key(tenant)]


def put_caps(
    side: Side,
    revision: int,
    *,
    tenant: str = TENANT,
    lineage: str | None = None,
    new: bool = False,
    limits: Mapping[CapPeriod, int] | None = None,
) -> list[str]:
    """Limits that are not named are taken away."""
    words = [str((limits or {}).get(period, "")) for period in PERIODS]
    arguments = [tenant, EPOCH, str(revision), *words, "new" if new else "known"]
    return side.call("caps", caps_keys(tenant, lineage), arguments)


def rebuild_keys(items: Sequence[RebuildItem], tenant: str = TENANT) -> list[str]:
    fixed = [keys.balance_key(tenant), keys.holds_key(tenant), keys.EPOCH, keys.seq_key(tenant), keys.gate_key(tenant)]
    return fixed + [key for item in items for key in item.key_pair(tenant)]


def rebuild(
    side: Side,
    items: Sequence[RebuildItem],
    *,
    token: str,
    balance: str | int,
    mode: str = "begin",
    tenant: str = TENANT,
) -> list[str]:
    flat = [text for item in items for text in (item.kind, item.id, str(item.first), str(item.second))]
    return side.call("rebuild", rebuild_keys(items, tenant), [tenant, token, str(balance), mode, *flat])


def balance_of(side: Side, tenant: str = TENANT) -> int:
    return int(str(side.state()[keys.balance_key(tenant)][0]))
