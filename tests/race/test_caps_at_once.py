"""Ten processes at the real scripts at once. Their log, in Redis' own order, is the model's to do again.

1. The model gives the same answers, and ends in the same state.
2. At each accepted hold, what its windows' runs hold and were charged, added up run by run from the answers alone,
   is within every limit in force.
"""

import multiprocessing
import os
import random
from collections import Counter, defaultdict

import pytest
import redis
from django.conf import settings

from budget.redis import keys
from budget.redis.windows import PERIODS, cap_window
from tests.gear.reference import crowd
from tests.gear.reference.money import EPOCH, ModelSide, ScriptSide
from tests.gear.reference.money_model import Model
from tests.proving import proofs

pytestmark = pytest.mark.contract("CAP-02", "CAP-05", "CAP-07", "CAP-08")

PROCESSES = 10


def let_them_work(client: redis.Redis, *, rounds: int) -> list[crowd.Logged]:
    seed = int(os.environ.get("DPP_CROWD_SEED") or random.SystemRandom().randrange(2**32))
    print(f"DPP_CROWD_SEED={seed}")  # noqa: T201  pytest shows it when the test fails
    crowd.prepare(client)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([crowd.__name__])
    workers = [
        context.Process(target=crowd.Worker(settings.REDIS_URL, seed + number, rounds)) for number in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    log = crowd.log_of(client)
    proofs.report(cases=len(log), seed=seed)
    return log


def the_model_agrees(client: redis.Redis, log: list[crowd.Logged]) -> None:
    side = ModelSide(Model())
    side.put(keys.EPOCH, EPOCH)
    for tenant in crowd.LINEAGES:
        side.put(keys.balance_key(tenant), str(10**9))
    for one in log:
        assert side.call(one.name, one.names, one.arguments) == one.answer, one
    client.delete(crowd.LOG, crowd.OPEN, crowd.REVISION)
    # What is left of a key's life is the clock's, which the model does not have.
    left, expected = ({key: value for key, (value, _) in it.state().items()} for it in (ScriptSide(client), side))
    assert left == expected


class Sums:
    """What each window's runs hold and were charged: from the answers, without any counter."""

    def __init__(self) -> None:
        self.runs: dict[str, tuple[list[str], str]] = {}
        self.limits: dict[str, dict[str, str]] = {}
        self.spent: dict[tuple[str, str, str], int] = defaultdict(int)
        self.left: list[int] = []

    def read(self, one: crowd.Logged) -> None:
        asked, answer = one.arguments, one.answer
        if answer[0] != "OK":
            return
        if one.name == "caps":
            self.limits[one.names[0]] = dict(zip(PERIODS, asked[3:7], strict=True))
        elif one.name == "reserve":
            self.runs[asked[3]] = (one.names[7:], asked[5])
            self._add(asked[3], int(asked[1]))
            self._within(*self.runs[asked[3]])
        elif answer[-1] == "first":
            run = {"settle": 2, "refund_full": 1, "credit": 2}[one.name]
            back = {"settle": answer[2], "refund_full": answer[1], "credit": asked[1]}[one.name]
            self._add(asked[run].removeprefix("refund:"), -int(back))

    def _add(self, run: str, micros: int) -> None:
        names, day = self.runs[run]
        for name in names:
            for period in PERIODS:
                self.spent[name, period, cap_window(day, period)] += micros

    def _within(self, names: list[str], day: str) -> None:
        for name in names:
            for period in PERIODS:
                if limit := self.limits.get(name, {}).get(period):
                    self.left.append(int(limit) - self.spent[name, period, cap_window(day, period)])
                    assert self.left[-1] >= 0, (name, period, day)


def no_limit_was_passed(log: list[crowd.Logged]) -> Sums:
    sums = Sums()
    for one in log:
        sums.read(one)
    return sums


def everything_happened(log: list[crowd.Logged], sums: Sums) -> None:
    kinds = Counter((one.name, one.answer[0], one.answer[-1]) for one in log)
    told = {(name, word) for name, word, _ in kinds}
    assert {("reserve", "ERR_CAP"), ("reserve", "ERR_DATE"), ("caps", "OK")} <= told
    assert {("settle", "OK", "again"), ("credit", "OK", "again"), ("refund_full", "OK", "again")} <= set(kinds)
    assert 0 in sums.left, "the last micro was held"


def test_ten_processes_pass_no_limit(valkey: redis.Redis) -> None:
    """What the ten do is left to chance: that everything came up is asked of the many rounds alone."""
    log = let_them_work(valkey, rounds=200)
    assert len(log) >= 2_000
    no_limit_was_passed(log)
    the_model_agrees(valkey, log)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_processes_pass_no_limit_in_many_rounds(valkey: redis.Redis) -> None:
    log = let_them_work(valkey, rounds=6_000)
    assert len(log) >= 60_000
    everything_happened(log, no_limit_was_passed(log))
    the_model_agrees(valkey, log)
