"""Processes that hold, settle, refund, dispute and change caps at once, each script writing down itself what it did.

The log stands in the order in which Redis ran the scripts, which no process could tell.
"""

import json
import random
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

import redis

from budget.redis import keys
from budget.redis.windows import Counted, date_number, day_of
from tests.gear.reference.money import (
    EPOCH,
    OTHER,
    SCRIPTS,
    TENANT,
    caps_keys,
    credit_keys,
    end_keys,
    run_keys,
    scopes,
)

LOG: Final = "log"
OPEN: Final = "open"
REVISION: Final = "revision"
FIRST: Final = date(2026, 2, 26)
"""A Thursday: a month ends within its week."""
DAYS: Final = 9
LINEAGES: Final[dict[str, tuple[str | None, ...]]] = {
    TENANT: ("one", "two", "never-capped", None),
    OTHER: ("nine", None),
}
SCOPES: Final = ((TENANT, None), (TENANT, "one"), (TENANT, "two"), (OTHER, None), (OTHER, "nine"))
_LOGGED: Final = """local function body()
{text}
end
local answer = body()
redis.call('RPUSH', 'log', cjson.encode({{'{name}', KEYS, ARGV, answer}}))
return answer"""


@dataclass(frozen=True)
class Logged:
    name: str
    names: list[str]
    arguments: list[str]
    answer: list[str]


def prepare(client: redis.Redis) -> None:
    client.set(keys.EPOCH, EPOCH)
    for tenant in LINEAGES:
        client.set(keys.balance_key(tenant), 10**9)
    for tenant, lineage in SCOPES:
        call(client, "caps", caps_keys(tenant, lineage), [tenant, EPOCH, "1", "", "", "", "", "new"])
    client.set(REVISION, 1)


def call(client: redis.Redis, name: str, names: list[str], arguments: list[str]) -> list[str]:
    text = _LOGGED.format(text=SCRIPTS[name].text, name=name)
    answer: list[str] = client.register_script(text)(keys=names, args=arguments)
    return answer


def log_of(client: redis.Redis) -> list[Logged]:
    lines: Any = client.lrange(LOG, 0, -1)
    return [Logged(*json.loads(line)) for line in lines]


@dataclass
class Worker:
    """One process: `rounds` times it does something, while the days pass."""

    url: str
    seed: int
    rounds: int

    def __call__(self) -> None:
        self.client = redis.Redis.from_url(self.url, decode_responses=True)
        self.dice = random.Random(self.seed)  # noqa: S311  a schedule, not a secret
        for number in range(self.rounds):
            behind = self.dice.choice([0] * 20 + [1, 2])
            today = FIRST + timedelta(days=number * DAYS // self.rounds - behind)
            what = self.dice.random()
            if what < 0.03:
                self.change_caps()
            elif what < 0.6:
                self.hold(f"{self.seed}-{number}", today)
            else:
                self.end()

    def change_caps(self) -> None:
        tenant, lineage = self.dice.choice(SCOPES)
        wide = 20_000 if lineage else 100_000
        limits = [
            "" if self.dice.random() < 0.4 else str(wide * scale * self.dice.choice([0, 1, 2, 5, 9]))
            for scale in (1, 3, 6, 9)
        ]
        revision = str(self.client.incr(REVISION))
        call(self.client, "caps", caps_keys(tenant, lineage), [tenant, EPOCH, revision, *limits, "known"])

    def hold(self, run: str, today: date) -> None:
        tenant = self.dice.choice([TENANT, TENANT, TENANT, OTHER])
        counted = Counted(self.dice.choice(LINEAGES[tenant]), today)
        amount = self.dice.choice([1, 999, 1_000, 5_000, self.dice.randint(1, 30_000)])
        for _ in range(4):
            names = [*run_keys(tenant, run), *scopes(tenant, counted)]
            arguments = [tenant, str(amount), "1", run, EPOCH, date_number(counted.day)]
            answer = call(self.client, "reserve", names, arguments)
            if answer[0] == "ERR_DATE":
                counted = Counted(counted.lineage_id, day_of(answer[1]))
            elif answer[0] == "ERR_CAP" and (left := int(answer[3]) - int(answer[4])) > 0:
                amount = left
            else:
                break
        if answer[0] == "OK":
            row = [tenant, run, counted.lineage_id, date_number(counted.day), amount]
            self.client.rpush(OPEN, json.dumps(row))

    def end(self) -> None:
        """Of a run that others may end as well, once or more; often it is disputed then."""
        found: Any = self.client.lindex(OPEN, self.dice.randint(-30, 29))
        if found is None:
            return
        tenant, run, lineage, number, amount = json.loads(found)
        counted = Counted(lineage, day_of(number))
        names = [*end_keys(tenant, run), *scopes(tenant, counted)]
        charge = self.dice.choice([0, 1, amount // 3, amount, amount + 5])
        for _ in range(self.dice.choice([1, 1, 2])):
            if self.dice.random() < 0.2:
                call(self.client, "refund_full", names, [tenant, run, EPOCH, "held", number])
            else:
                call(self.client, "settle", names, [str(charge), tenant, run, EPOCH, number])
        if self.dice.random() < 0.8:
            self.client.lrem(OPEN, 1, found)
        taken = self._charge_in(run)
        if taken and self.dice.random() < 0.3:
            for _ in range(self.dice.choice([1, 2])):
                arguments = [tenant, str(taken), f"refund:{run}", EPOCH, number]
                call(
                    self.client, "credit", [*credit_keys(tenant, f"refund:{run}"), *scopes(tenant, counted)], arguments
                )

    def _charge_in(self, run: str) -> int:
        receipt: Any = self.client.get(keys.receipt_key(run))
        return int(receipt.split(" ")[0]) if receipt else 0
