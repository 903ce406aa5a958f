"""Customers of the platform, over its public API alone. They are good ones: they repeat what was not answered, with the
same Idempotency-Key, until it is, and they keep every receipt."""

import heapq
import itertools
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final

from dpp_project.devstack import http
from dpp_project.devstack.http import HttpAnswer

CEILING_USD: Final = "0.2500"
ENDED: Final = frozenset({"COMPLETED", "FAILED"})
LOOK_SECONDS: Final = 0.7
PAUSE_FIRST_SECONDS, PAUSE_MAX_SECONDS = 0.2, 2.0
REPORT_KINDS: Final = 10


@dataclass(frozen=True)
class Account:
    tenant_id: str
    key: str


@dataclass
class Order:
    """One run a customer wants, and all that the platform has said of it."""

    account: Account
    idempotency_key: str
    inputs: dict[str, Any]
    price_usd: str = CEILING_USD
    pack_type: str = "probe"
    is_unsure: bool = False
    """An attempt was not answered: it may come to a run long after a later one was refused."""
    cancel_after: float | None = None
    first_asked_at: float = 0.0
    asked_at: float = 0.0
    """Of the attempt that was answered."""
    accepted_at: float | None = None
    run_id: str | None = None
    canceled: bool = False
    seen: dict[str, Any] | None = None
    seen_at: float = 0.0


@dataclass
class Deposit:
    account: Account
    reference: str
    micros: int
    answered: bool = False


@dataclass
class Report:
    """An auth error of one of a few kinds: each falls into the cluster of its kind."""

    account: Account
    request_id: str
    kind: int
    auth_error_id: str | None = None


@dataclass
class Books:
    """What all customers together know."""

    orders: list[Order] = field(default_factory=list)
    deposits: list[Deposit] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def heard(self, what: str, answer: HttpAnswer | None) -> None:
        said = "no answer" if answer is None else f"{answer.status} {answer.body.get('reason_code', '')}".strip()
        with self.guard:
            self.answers[f"{what}: {said}"] += 1

    def complain(self, what: str) -> None:
        with self.guard:
            self.wrong.append(what)

    def withdraw(self, order: Order) -> None:
        """It was refused, and stands for nothing: a row that has its key is nobody's."""
        with self.guard:
            self.orders.remove(order)

    def accepted(self) -> list[Order]:
        with self.guard:
            return [order for order in self.orders if order.run_id is not None]

    def first_served(self, since: float) -> float | None:
        """When the first submit was accepted that was asked after this moment."""
        times = [order.accepted_at for order in self.accepted() if order.asked_at >= since and order.accepted_at]
        return min(times, default=None)

    def first_ended(self, since: float) -> float | None:
        """When the first run was seen to end that was asked for after this moment."""
        return min(
            (order.seen_at for order in self.accepted() if order.first_asked_at >= since and order.seen_at),
            default=None,
        )


class Customers:
    """Threads that come and go together. `leave` ends the buying; the looking goes on until `close`."""

    def __init__(self, api: str, operator_key: str, accounts: list[Account], *, seed: int) -> None:
        self._api = api
        self._operator = operator_key
        self._accounts = accounts
        self._seed = seed
        self.books = Books()
        self.leaving = threading.Event()
        self.closing = threading.Event()
        self._watched: list[tuple[float, int, Order]] = []
        self._numbers = itertools.count()
        self._watching = threading.Condition()
        self._buyers: list[threading.Thread] = []
        self._threads: list[threading.Thread] = []

    def come(
        self,
        *,
        buyers: int = 5,
        watchers: int = 3,
        reporters: int = 0,
        others: Iterable[Callable[[random.Random], None]] = (),
    ) -> None:
        """`others` are repeated as the buyers are, each in a thread of its own."""
        for account in self._accounts:
            self.deposit(account, 2_000_000, random.Random(self._seed))  # noqa: S311
        parts: list[Callable[[random.Random], None]] = [
            *itertools.repeat(self._buy, buyers),
            *itertools.repeat(self._report, reporters),
            self._canary,
            self._fund,
            *others,
        ]
        for number, part in enumerate(parts):
            chance = random.Random(f"{self._seed} {number}")  # noqa: S311  repeatable, no secret
            self._buyers.append(threading.Thread(target=self._keep_on, args=(part, chance), daemon=True))
        self._threads = [threading.Thread(target=self._watch, daemon=True) for _ in range(watchers)]
        for thread in (*self._buyers, *self._threads):
            thread.start()

    def leave(self) -> None:
        self.leaving.set()

    def are_gone(self) -> bool:
        """Whether every request has had its answer."""
        return not any(thread.is_alive() for thread in self._buyers)

    def close(self) -> None:
        self.closing.set()
        for thread in (*self._buyers, *self._threads):
            thread.join(30)

    def order_long_ones(self, count: int, *, sleep_ms: int = 15_000) -> None:
        """Runs that are surely at work in some seconds, for a worker to be stopped over."""
        for _ in range(count):
            self.place(self.order(self._accounts[0], {"sleep_ms": sleep_ms, "cost_usd": "0.0100"}), random.Random(0))  # noqa: S311

    # Buying.

    def _keep_on(self, part: Callable[[random.Random], None], chance: random.Random) -> None:
        while not self.leaving.is_set() and not self.closing.is_set():
            try:
                part(chance)
            except Exception as error:  # noqa: BLE001  a customer that stops is load that is missing
                self.books.complain(f"a customer failed: {error!r}")

    def _buy(self, chance: random.Random) -> None:
        inputs: dict[str, Any] = {"sleep_ms": chance.choice([1, 20, 60, 200, 400])}
        if chance.random() < 0.05:
            inputs["sleep_ms"] = chance.randrange(4_000, 12_000)
        inputs["cost_usd"] = usd(chance.randrange(2_001) * 100)
        inputs |= dict(chance.choices([(), [("fail", True)], [("exit", 3)]], weights=[86, 8, 6])[0])
        order = self.order(chance.choice(self._accounts), inputs)
        if chance.random() < 0.07:
            order.cancel_after = chance.choice([0.0, 0.05, 0.5, 3.0])
        self.place(order, chance)
        self.leaving.wait(chance.uniform(0.2, 1.4))

    def _canary(self, chance: random.Random) -> None:
        """Short runs, one after the other, each looked at until it ends: how soon all is well again is read from it."""
        order = self.order(self._accounts[0], {"sleep_ms": 1, "cost_usd": "0.0001"})
        self.place(order, chance, watch=False)
        until = time.monotonic() + 3
        while order.run_id is not None and not order.seen_at and time.monotonic() < until:
            self._look(order)
            self.leaving.wait(0.1)
        self.watch_later(order)

    def order(self, account: Account, inputs: dict[str, Any], *, price_usd: str = CEILING_USD) -> Order:
        order = Order(account, f"chaos-{uuid.uuid4().hex}", inputs, price_usd)
        with self.books.guard:
            self.books.orders.append(order)
        return order

    def place(
        self, order: Order, chance: random.Random, *, watch: bool = True, what: str = "submit"
    ) -> HttpAnswer | None:
        """Until the platform has accepted it, whatever happens meanwhile; now and then once more after that.

        A spend cap may refuse it: that is an answer too. None when the day is over.
        """
        order.first_asked_at = time.monotonic()
        answer = self._until_answered(what, lambda: self.submit(order), chance, order)
        if answer is None or answer.status == 402:
            return answer
        order.run_id, order.accepted_at = str(answer.body["run_id"]), time.monotonic()
        if watch:
            self.watch_later(order)
        if chance.random() < 0.1:
            again = self._until_answered("submit again", lambda: self.submit(order), chance, order)
            if again is not None and again.body != answer.body:
                self.books.complain(f"{order.idempotency_key} has two receipts: {answer.body} and {again.body}")
        return answer

    def _until_answered(
        self, what: str, ask: Callable[[], HttpAnswer | None], chance: random.Random, order: Order | None = None
    ) -> HttpAnswer | None:
        """The answer that is one; None when the day is over. A drained budget is filled, and asked of again."""
        pause = PAUSE_FIRST_SECONDS
        while not self.closing.is_set():
            if order is not None and order.run_id is None:
                order.asked_at = time.monotonic()
            answer = ask()
            self.books.heard(what, answer)
            if answer is None and order is not None:
                order.is_unsure = True
            if answer is not None and (answer.status in {200, 201, 202} or is_capped(answer)):
                return answer
            if answer is not None and answer.status == 402 and order is not None:
                self.deposit(order.account, 1_500_000, chance)
            elif answer is not None and answer.status < 500 and answer.status not in {409, 429}:
                self.books.complain(f"{what} was refused: {answer.status} {answer.body}")
                return None
            elif answer is not None and answer.body.get("reason_code") == "IDEMPOTENCY_CONFLICT":
                self.books.complain(f"{what} met another request under its own key: {answer.body}")
                return None
            self.closing.wait(pause * chance.uniform(0.7, 1.3))
            pause = min(PAUSE_MAX_SECONDS, pause * 1.6)
        return None

    def submit(self, order: Order) -> HttpAnswer | None:
        return self.call(
            "POST",
            "/v1/runs",
            order.account.key,
            send={
                "pack_type": order.pack_type,
                "inputs": order.inputs,
                "reservation": {"max_cost_usd": order.price_usd, "timebox_sec": 60},
            },
            headers={"Idempotency-Key": order.idempotency_key},
        )

    # Paying.

    def _fund(self, chance: random.Random) -> None:
        self.deposit(self._accounts[0], chance.randrange(1, 900_000), chance)
        self.leaving.wait(chance.uniform(2, 6))

    def deposit(self, account: Account, micros: int, chance: random.Random) -> None:
        deposit = Deposit(account, f"chaos-{uuid.uuid4().hex}", micros // 100 * 100 or 100)
        with self.books.guard:
            self.books.deposits.append(deposit)
        answer = self._until_answered(
            "top-up",
            lambda: self.call(
                "POST",
                f"/v1/tenants/{account.tenant_id}/topups",
                self._operator,
                send={"amount_usd": usd(deposit.micros), "reason": "chaos"},
                headers={"Idempotency-Key": deposit.reference},
            ),
            chance,
        )
        deposit.answered = answer is not None

    # Reporting.

    def _report(self, chance: random.Random) -> None:
        """Until it is answered; now and then once more, which finds the first."""
        report = Report(chance.choice(self._accounts), f"chaos-{uuid.uuid4().hex}", chance.randrange(REPORT_KINDS))
        with self.books.guard:
            self.books.reports.append(report)
        body = _an_auth_error(report, chance)

        def ask() -> HttpAnswer | None:
            return self.call("POST", "/api/auth-errors", report.account.key, send=body)

        answer = self._until_answered("report", ask, chance)
        if answer is None:
            return
        report.auth_error_id = str(answer.body["auth_error_id"])
        if chance.random() < 0.2:
            again = self._until_answered("report again", ask, chance)
            if again is not None and (again.status, again.body["auth_error_id"]) != (200, report.auth_error_id):
                self.books.complain(f"{report.request_id} was answered {report.auth_error_id}, then {again.body}")
        self.leaving.wait(chance.uniform(0.2, 1.4))

    # Reading and canceling.

    def watch_later(self, order: Order, *, seconds: float = LOOK_SECONDS) -> None:
        if order.run_id is None or order.seen_at:
            return
        due = time.monotonic() + (seconds if order.cancel_after is None else min(seconds, order.cancel_after))
        with self._watching:
            heapq.heappush(self._watched, (due, next(self._numbers), order))
            self._watching.notify()

    def _watch(self) -> None:
        while not self.closing.is_set():
            with self._watching:
                if not self._watched or self._watched[0][0] > time.monotonic():
                    self._watching.wait(0.05)
                    continue
                _, _, order = heapq.heappop(self._watched)
            if order.cancel_after is not None:
                self._cancel(order)
            self._look(order)
            age = time.monotonic() - (order.accepted_at or 0)
            self.watch_later(order, seconds=min(3.0, max(LOOK_SECONDS, age / 10)))

    def _cancel(self, order: Order) -> None:
        answer = self.call("POST", f"/v1/runs/{order.run_id}/cancel", order.account.key)
        self.books.heard("cancel", answer)
        if answer is None or answer.status >= 500 or answer.status == 429:
            order.cancel_after = PAUSE_FIRST_SECONDS
            return
        order.cancel_after = None
        order.canceled = answer.status in {200, 202}
        if not order.canceled and answer.status != 409:
            self.books.complain(f"cancel of {order.run_id} was refused: {answer.status} {answer.body}")

    def _look(self, order: Order) -> None:
        answer = self.call("GET", f"/v1/runs/{order.run_id}", order.account.key)
        self.books.heard("read", answer)
        if answer is None or answer.status >= 500 or answer.status == 429:
            return
        if answer.status != 200:
            self.books.complain(f"{order.run_id} was accepted, and reads {answer.status} {answer.body}")
            order.seen_at = time.monotonic()
        elif answer.body["status"] in ENDED:
            order.seen, order.seen_at = answer.body, time.monotonic()

    def call(
        self,
        method: str,
        path: str,
        key: str,
        *,
        send: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> HttpAnswer | None:
        """None: nobody knows what became of the request."""
        try:
            return http.call_api(method, self._api + path, key=key, send=send, headers=headers)
        except (OSError, HTTPException, ValueError):
            return None


def _an_auth_error(report: Report, chance: random.Random) -> dict[str, Any]:
    """Messages, lines and addresses differ each time; classes and methods are its kind's."""
    name = f"com.shop.auth.Kind{'ABCDEFGHIJ'[report.kind]}"
    frames = (f"\tat {name}.step{part}(Filter.java:{chance.randrange(1, 900)})" for part in ["one", "two", "three"])
    message = f"token {chance.getrandbits(64):x} of user {chance.randrange(10**6)} has expired"
    return {
        "requestId": report.request_id,
        "occurredAt": "2026-03-01T12:00:00+09:00",
        "httpStatus": 401,
        "exceptionClass": f"{name}Exception",
        "exceptionMessage": message,
        "stacktrace": "\n".join([f"{name}Exception: {message}", *frames]),
    }


def is_capped(answer: HttpAnswer) -> bool:
    return answer.status == 402 and answer.body.get("reason_code") == "SPEND_CAP_REACHED"


def usd(micros: int) -> str:
    return f"{micros // 1_000_000}.{micros % 1_000_000 // 100:04d}"
