"""Fifty agents on one key with caps, the uncapped key beside it, and the person who changes the caps under way.

The agents spend until they are refused, ask again as soon as a cap has been changed, and note every refusal. Caps go up
and down, below what is spent too. When all is settled, exactly what is left is spent, and not a step more.
"""

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from dpp_project.devstack.http import HttpAnswer
from tests.gear.waiting import wait_until
from tests.proving.chaos.customers import PAUSE_FIRST_SECONDS, Account, Customers, Order, usd

AGENTS: Final = 50
PERIODS: Final = ("day", "total")
STEP_MICROS: Final = 100
"""The least amount over HTTP: 0.0001 USD."""
FUNDS_MICROS: Final = 20_000_000
AT_FIRST_MICROS: Final = {"key": 300_000, "tenant": 900_000}
MORE_STEPS: Final = {"key": 5_000, "tenant": 12_000}
"""A limit is raised by less than this, above what is counted."""
PRICES_STEPS: Final = (50, 800)
"""From 0.0050 to 0.0800 USD."""
LAST_SECONDS: Final = 60.0
Windows = dict[tuple[str, str], dict[str, Any]]
"""By scope and period, as GET /v1/budget has them."""


@dataclass(frozen=True)
class CapRefused:
    """A submit that was answered 402 SPEND_CAP_REACHED."""

    at: float
    """When it was heard, by the clock of this host, which Postgres reads too."""
    of_agents: bool
    cap: dict[str, Any]


@dataclass(frozen=True)
class CapEnforced:
    """From when on this revision, or a later one, binds every process."""

    at: float
    scope: str
    revision: int


@dataclass
class CapNotes:
    """What the tenant was told of its caps."""

    refused: list[CapRefused] = field(default_factory=list)
    enforced: list[CapEnforced] = field(default_factory=list)
    at_the_end: Windows = field(default_factory=dict)


class CappedTenant:
    """`keeper` is its key without caps of its own, which sets those of the agents' key and of the tenant."""

    def __init__(self, customers: Customers, keeper: Account, *, seed: int) -> None:
        self._customers = customers
        self.keeper = keeper
        self._chance = random.Random(f"{seed} caps")  # noqa: S311  repeatable, no secret
        self.notes = CapNotes()
        self._changed = threading.Event()
        self._given = {AT_FIRST_MICROS["key"]}
        self._undecided: list[Order] = []
        """Refused at last, after an attempt that was not answered."""
        key = self._made_key()
        self.agents = Account(keeper.tenant_id, str(key["key"]))
        self.lineage_id = str(key["lineage_id"])
        self._caps_of = {"key": f"/v1/keys/{key['key_id']}/caps", "tenant": "/v1/budget/caps"}
        self._set_caps("tenant", dict.fromkeys(PERIODS, AT_FIRST_MICROS["tenant"]))

    def parts(self) -> Iterator[Callable[[random.Random], None]]:
        """What its people do over and over, each in a thread of its own."""
        yield from itertools.repeat(self._spend, AGENTS)
        yield self._spend_beside
        yield self._change

    def _made_key(self) -> dict[str, Any]:
        self._customers.deposit(self.keeper, FUNDS_MICROS, self._chance)
        answer = self._customers.call(
            "POST",
            "/v1/keys",
            self.keeper.key,
            send={
                "scopes": ["runs:read", "runs:write", "budget:read"],
                "caps": {f"{period}_usd": usd(AT_FIRST_MICROS["key"]) for period in PERIODS},
            },
        )
        if answer is None or answer.status != 201 or not answer.body["enforced"]:
            raise RuntimeError(f"no key with a cap: {answer}")
        self.notes.enforced.append(CapEnforced(time.time(), "key", int(answer.body["caps_revision"])))
        return answer.body

    # The agents.

    def _spend(self, chance: random.Random) -> None:
        """One run at a random price. Refused, it is asked for again when caps have changed, or is given up."""
        price = chance.randrange(*PRICES_STEPS) * STEP_MICROS
        cost = price if chance.random() < 0.3 else chance.randrange(0, price + 1, STEP_MICROS)
        inputs: dict[str, Any] = {"sleep_ms": chance.choice([1, 20, 200]), "cost_usd": usd(cost)}
        inputs |= dict(chance.choices([(), [("fail", True)]], weights=[94, 6])[0])
        order = self._customers.order(self.agents, inputs, price_usd=usd(price))
        if chance.random() < 0.05:
            order.cancel_after = chance.choice([0.0, 0.05, 0.5])
        while True:
            changed = self._changed
            answer = self._customers.place(order, chance, what="submit of an agent")
            if answer is None or answer.status != 402:
                break
            self._note_refusal(answer, price, of_agents=True)
            if self._customers.leaving.is_set() or (not order.is_unsure and chance.random() < 0.5):
                self._give_up(order)
                break
            changed.wait(chance.uniform(3, 9))
        self._customers.leaving.wait(chance.uniform(0.1, 1))

    def _give_up(self, order: Order) -> None:
        if order.is_unsure:
            self._undecided.append(order)
        else:
            self._customers.books.withdraw(order)

    def _note_refusal(self, answer: HttpAnswer, price_micros: int, *, of_agents: bool) -> None:
        cap = answer.body["cap"]
        self.notes.refused.append(CapRefused(time.time(), of_agents, cap))
        limit, used, held, left = (cap[f"{name}_usd_micros"] for name in ("limit", "used", "held", "left"))
        if left != max(0, limit - used - held) or left >= price_micros:
            self._complain(f"{usd(price_micros)} was refused by a cap that leaves room, or does not add up: {cap}")
        if not of_agents and cap["scope"] != "tenant":
            self._complain(f"the key without a cap was refused by one: {cap}")

    def _spend_beside(self, chance: random.Random) -> None:
        """With the other key: its runs count for the tenant, and the agents' cap is none of its business."""
        price = chance.randrange(1, 200) * STEP_MICROS
        self._try(self.keeper, price, {"sleep_ms": 1, "cost_usd": usd(price)}, chance)
        self._customers.leaving.wait(chance.uniform(1, 4))

    def _try(self, account: Account, price: int, inputs: dict[str, Any], chance: random.Random) -> HttpAnswer | None:
        """Once: accepted, or refused and given up."""
        order = self._customers.order(account, inputs, price_usd=usd(price))
        answer = self._customers.place(
            order, chance, what="submit of a neighbour" if account == self.keeper else "last"
        )
        if answer is not None and answer.status == 402:
            self._note_refusal(answer, price, of_agents=account != self.keeper)
            self._give_up(order)
        return answer

    # The caps.

    def _change(self, chance: random.Random) -> None:
        """Up, which wakes all agents at once; often back again, while they spend what they were given."""
        self._customers.leaving.wait(chance.uniform(2, 6))
        windows = {} if self._customers.leaving.is_set() else self._windows()
        tightest = min(windows, key=lambda window: windows[window]["left_usd_micros"], default=("key", ""))[0]
        scope = chance.choice([tightest, tightest, tightest, "key", "tenant"])
        before = {period: _counted(windows[scope, period]) for period in PERIODS} if windows else {}
        if before:
            most = MORE_STEPS[scope]
            more = {period: chance.randrange(1_000, most) * STEP_MICROS for period in PERIODS}
            self._set_caps(scope, {period: before[period] + more[period] for period in PERIODS})
        changed, self._changed = self._changed, threading.Event()
        changed.set()
        if before and chance.random() < 0.4:
            self._customers.leaving.wait(chance.uniform(0, 0.5))
            self._set_caps(scope, {period: int(micros * chance.uniform(0.5, 1)) for period, micros in before.items()})

    def _set_caps(self, scope: str, limits: dict[str, int]) -> None:
        """Until it is answered that they are in force; no limit is given twice, so that a limit tells its revision."""
        send = {
            f"{period}_usd": usd(self._never_given(micros // STEP_MICROS * STEP_MICROS))
            for period, micros in limits.items()
        }
        while not self._customers.closing.is_set():
            answer = self._customers.call("PUT", self._caps_of[scope], self.keeper.key, send=send)
            self._customers.books.heard("caps", answer)
            if answer is not None and answer.status == 200 and answer.body["enforced"]:
                self.notes.enforced.append(CapEnforced(time.time(), scope, int(answer.body["revision"])))
                return
            if answer is not None and answer.status not in {200, 409, 429} and answer.status < 500:
                self._complain(f"caps were refused: {answer.status} {answer.body}")
                return
            self._customers.closing.wait(PAUSE_FIRST_SECONDS)

    def _never_given(self, micros: int) -> int:
        while micros in self._given:
            micros += STEP_MICROS
        self._given.add(micros)
        return micros

    def _windows(self) -> Windows:
        """Empty where there is no answer."""
        answer = self._customers.call("GET", "/v1/budget", self.agents.key)
        self._customers.books.heard("caps read", answer)
        if answer is None or answer.status != 200:
            return {}
        return {(cap["scope"], cap["period"]): cap for cap in answer.body["caps"]}

    def _complain(self, what: str) -> None:
        self._customers.books.complain(what)

    # When all is settled.

    def decide_the_undecided(self) -> None:
        """Of these it is not known whether a run stands; asked once more, each is one or the other."""
        for order in self._undecided:
            answer = self._customers.place(order, self._chance, what="submit of an agent")
            if answer is not None and answer.status == 402:
                self._customers.books.withdraw(order)

    def spend_the_last(self) -> None:
        """Exactly what is left, and not a step more: not while it is held, and not when it is spent."""
        try:
            self._spend_the_last()
        except AssertionError as late:
            self._complain(f"the last of the caps could not be spent: {late}")

    def _spend_the_last(self) -> None:
        windows = self._settled_windows()
        for scope in ("tenant", "key"):
            if any(windows[scope, period]["left_usd_micros"] < 2 * STEP_MICROS for period in PERIODS):
                used = {period: windows[scope, period]["used_usd_micros"] for period in PERIODS}
                more = self._chance.randrange(*PRICES_STEPS) * STEP_MICROS
                self._set_caps(scope, {period: micros + more for period, micros in used.items()})
        windows = self._settled_windows()
        left = min(cap["left_usd_micros"] for cap in windows.values())
        self._must_refuse(left + STEP_MICROS, windows)
        answer = self._try(self.agents, left, {"sleep_ms": 1, "cost_usd": usd(left)}, self._chance)
        if answer is None or answer.status != 202:
            self._complain(f"{usd(left)} is what is left, and was refused: {answer}")
            return
        self._must_refuse(STEP_MICROS)
        wait_until(self._is_settled, seconds=LAST_SECONDS, pause_seconds=0.2, what="the last run's end")
        after = self._settled_windows()
        for name, cap in after.items():
            if cap["used_usd_micros"] != windows[name]["used_usd_micros"] + left:
                self._complain(f"{usd(left)} were spent of {windows[name]}, and this came of it: {cap}")
        self._must_refuse(STEP_MICROS, after)
        self._spend_the_last_beside(after)
        wait_until(self._is_settled, seconds=LAST_SECONDS, pause_seconds=0.2, what="the neighbour's last run's end")
        self.notes.at_the_end = self._settled_windows()

    def _spend_the_last_beside(self, windows: Windows) -> None:
        """The tenant's caps alone say whether the other key may spend a step."""
        fits = all(windows["tenant", period]["left_usd_micros"] >= STEP_MICROS for period in PERIODS)
        price = {"sleep_ms": 1, "cost_usd": usd(STEP_MICROS)}
        answer = self._try(self.keeper, STEP_MICROS, price, self._chance)
        if answer is None or (answer.status == 202) != fits:
            self._complain(f"beside a key that has spent its cap, of {windows}: {answer}")

    def _must_refuse(self, price: int, windows: Windows | None = None) -> None:
        """With the figures of `windows`; without them a run is under way, which may end meanwhile."""
        answer = self._try(self.agents, price, {"sleep_ms": 1, "cost_usd": "0.0000"}, self._chance)
        if answer is None or answer.status != 402:
            self._complain(f"{usd(price)} is more than is left of {windows}, and was answered {answer}")
            return
        cap = answer.body["cap"]
        if windows is not None and cap != windows.get((cap["scope"], cap["period"])):
            self._complain(f"a refusal says {cap}, and the budget {windows}")

    def _is_settled(self) -> bool:
        windows = self._windows()
        return bool(windows) and not any(cap["held_usd_micros"] for cap in windows.values())

    def _settled_windows(self) -> Windows:
        windows = wait_until(self._windows, seconds=LAST_SECONDS, pause_seconds=0.2, what="the budget")
        if any(cap["held_usd_micros"] for cap in windows.values()):
            self._complain(f"nothing is under way, and this is held: {windows}")
        return windows


def _counted(cap: dict[str, Any]) -> int:
    return int(cap["used_usd_micros"]) + int(cap["held_usd_micros"])
