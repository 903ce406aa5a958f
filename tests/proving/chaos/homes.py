"""Tenants who work in workspaces: they write files and remove some, put their homes to rest, wake, delete and undelete
them, and keep a note, outside, of each answer.

A file is written whole, with fsync, before its command ends; its content follows from its home and its number. Each act
has a number of its own, which it first enters into a log in the home: one that ran twice is found there.
"""

import itertools
import random
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import shake_256
from typing import Any, Final

from dpp_project.devstack.http import HttpAnswer
from tests.proving.chaos.customers import PAUSE_FIRST_SECONDS, PAUSE_MAX_SECONDS, Account, Customers, Order

FILES: Final = "files"
LOG: Final = "log"
SIZE_MAX: Final = 60_000
EXEC_SECONDS: Final = 5
RUN_SECONDS: Final = 15
WAKES_WITHIN_SECONDS: Final = 120.0
ENVIRON: Final = {"DPP_WORKSPACES_RUNNING_PER_TENANT": "20", "DPP_WORKSPACES_PER_TENANT": "500"}

_BEGIN: Final = """
import hashlib, os, sys
os.chdir("/home/workspace")
def sync(name):
    place = os.open(name, os.O_RDONLY)
    os.fsync(place)
    os.close(place)
act, seed, number = sys.argv[1:4]
log = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
os.write(log, (number + "\\n").encode())
os.fsync(log)
os.makedirs("files", exist_ok=True)
"""
_WRITE: Final = """
content = hashlib.shake_256((seed + " " + number).encode()).digest(int(sys.argv[4]))
with open("files/" + number + ".part", "wb") as file:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())
os.rename("files/" + number + ".part", "files/" + number)
"""
_REMOVE: Final = """
os.unlink("files/" + sys.argv[4])
"""
_END: Final = """
sync("files")
sync(".")
"""


@dataclass
class Home:
    """One workspace, and what its tenant knows of it."""

    account: Account
    name: str
    workspace_id: str = ""
    tried: dict[int, int] = field(default_factory=dict)
    """Numbers of files that a write was asked for, and their sizes."""
    written: set[int] = field(default_factory=set)
    """Of these, the ones whose write was answered as done."""
    removing: set[int] = field(default_factory=set)
    removed: set[int] = field(default_factory=set)
    acts: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    """Numbers of acts that were answered as done."""
    orders: dict[int, Order] = field(default_factory=dict)
    """Writes by a run of the pack `command`; whether one was done, the run's result says."""
    is_deleted: bool = False
    tree_at_the_end: list[bytes] = field(default_factory=list)
    """Of the home as it stood on disk, when nobody wrote any more."""

    def content(self, number: int) -> bytes:
        return shake_256(f"{self.name} {number}".encode()).digest(self.tried[number])


class HomeKeepers:
    """Each keeps one home at a time. `homes` are all that there ever were."""

    def __init__(self, customers: Customers, accounts: list[Account], *, seed: int, keepers: int) -> None:
        self._customers = customers
        self._accounts = accounts
        self._keepers = keepers
        self._seed = seed
        self._numbers = itertools.count(1)
        self.homes: list[Home] = []

    def parts(self) -> Iterator[Callable[[random.Random], None]]:
        for number in range(self._keepers):
            yield _Keeper(self, self._accounts[number % len(self._accounts)]).act

    # What one may ask. Each is asked until it is answered, or the day is over.

    def new_home(self, account: Account, chance: random.Random) -> Home | None:
        home = Home(account, f"home-{uuid.uuid4().hex[:12]}")
        send = {"name": home.name, "standby_ttl_seconds": 3_600, "archive_ttl_seconds": None}

        def ask() -> HttpAnswer | None:
            headers = {"Idempotency-Key": home.name}
            return self._customers.call("POST", "/v1/workspaces", account.key, send=send, headers=headers)

        answer = self._until(f"workspace of {account.tenant_id}", ask, chance)
        if answer is None:
            return None
        home.workspace_id = str(answer.body["workspace_id"])
        self.homes.append(home)
        if chance.random() < 0.3:
            again = self._until("workspace again", ask, chance)
            if again is not None and again.body["workspace_id"] != home.workspace_id:
                self._complain(f"{home.name} is two workspaces: {answer.body} and {again.body}")
        return home

    def write(self, home: Home, chance: random.Random) -> bool:
        number = self._file(home, chance)
        answer = self._exec(home, "write", self._write_argv(home, number), number)
        if answer is not None:
            home.written.add(number)
        return answer is not None

    def write_by_a_run(self, home: Home, chance: random.Random) -> None:
        number = self._file(home, chance)
        home.acts.add(number)
        inputs = {
            "workspace_id": home.workspace_id,
            "argv": self._write_argv(home, number),
            "deadline_sec": RUN_SECONDS,
        }
        order = self._customers.order(home.account, inputs)
        order.pack_type = "command"
        home.orders[number] = order
        self._customers.place(order, chance, what="submit of a command")

    def remove(self, home: Home, chance: random.Random) -> None:
        known = sorted(home.written - home.removing)
        if known:
            file, number = chance.choice(known), next(self._numbers)
            home.removing.add(file)
            argv = _argv(_BEGIN + _REMOVE + _END, "remove", home, number, file)
            if self._exec(home, "remove", argv, number) is not None:
                home.removed.add(file)

    def ask_to_be(self, home: Home, level: str, chance: random.Random) -> None:
        path, headers = f"/v1/workspaces/{home.workspace_id}", {"If-Match": "*"}
        self._until(
            f"rest in {level}",
            lambda: self._customers.call(
                "PATCH", path, home.account.key, send={"desired_state": level}, headers=headers
            ),
            chance,
        )

    def delete(self, home: Home, chance: random.Random) -> None:
        path = f"/v1/workspaces/{home.workspace_id}"
        home.is_deleted = True
        self._until("delete", lambda: self._customers.call("DELETE", path, home.account.key), chance)

    def undelete(self, home: Home, chance: random.Random) -> None:
        """The second of two requests may find it done: an answer to the first got lost."""
        path = f"/v1/workspaces/{home.workspace_id}/undelete"
        answer = self._until(
            "undelete",
            lambda: self._customers.call("POST", path, home.account.key, send={}),
            chance,
            also_done="not deleted",
        )
        home.is_deleted = answer is None

    def wake(self, home: Home) -> bool:
        """By a command, as anyone wakes one, again and again."""
        until = time.monotonic() + WAKES_WITHIN_SECONDS
        while time.monotonic() < until:
            answer = self._asked(home, ["true"])
            if answer is not None and answer.status == 200:
                return True
            time.sleep(PAUSE_FIRST_SECONDS)
        self._complain(f"{home.workspace_id} was not woken within {WAKES_WITHIN_SECONDS:.0f} s: {answer}")
        return False

    # How it asks.

    def _file(self, home: Home, chance: random.Random) -> int:
        number = next(self._numbers)
        home.tried[number] = chance.choice([0, 1, chance.randrange(SIZE_MAX)])
        return number

    @staticmethod
    def _write_argv(home: Home, number: int) -> list[str]:
        return _argv(_BEGIN + _WRITE + _END, "write", home, number, home.tried[number])

    def _exec(self, home: Home, what: str, argv: list[str], number: int) -> HttpAnswer | None:
        """One act, begun once: repeated while it was surely not begun. None: it is not known to be done."""
        home.acts.add(number)
        while not self._customers.leaving.is_set():
            answer = self._asked(home, argv)
            self._customers.books.heard(what, answer)
            if answer is not None and answer.status == 200:
                if answer.body["ended"] == "exited" and answer.body["exit_code"] == 0:
                    home.done.add(number)
                    return answer
                if answer.body["ended"] == "exited" and answer.body["exit_code"] < 128:  # by no signal
                    self._complain(f"{what} {number} in {home.workspace_id} ended with {answer.body}")
                return None
            if answer is not None and answer.status == 409 and answer.body["reason_code"] == "WORKSPACE_WAKING":
                self._customers.leaving.wait(PAUSE_FIRST_SECONDS)
                continue
            if answer is not None and answer.status < 500 and answer.status not in {409, 429}:
                self._complain(f"{what} in {home.workspace_id} was refused: {answer.status} {answer.body}")
            self._customers.leaving.wait(PAUSE_FIRST_SECONDS)
            return None
        return None

    def _asked(self, home: Home, argv: list[str]) -> HttpAnswer | None:
        path, send = f"/v1/workspaces/{home.workspace_id}/exec", {"argv": argv, "deadline_sec": EXEC_SECONDS}
        return self._customers.call("POST", path, home.account.key, send=send)

    def _until(
        self, what: str, ask: Callable[[], HttpAnswer | None], chance: random.Random, *, also_done: str | None = None
    ) -> HttpAnswer | None:
        pause = PAUSE_FIRST_SECONDS
        is_unsure = False
        while not self._customers.closing.is_set():
            answer = ask()
            self._customers.books.heard(what, answer)
            if answer is not None and answer.status in {200, 201, 202}:
                return answer
            if answer is None or answer.status >= 500:
                is_unsure = True
            elif is_unsure and also_done is not None and also_done in str(answer.body):
                return answer
            elif answer.status not in {409, 429}:
                self._complain(f"{what} was refused: {answer.status} {answer.body}")
                return None
            self._customers.closing.wait(pause * chance.uniform(0.7, 1.3))
            pause = min(PAUSE_MAX_SECONDS, pause * 1.6)
        return None

    def _complain(self, what: str) -> None:
        self._customers.books.complain(what)


class _Keeper:
    """One thread's: its home, and what it does next."""

    def __init__(self, keepers: HomeKeepers, account: Account) -> None:
        self._keepers = keepers
        self._account = account
        self._home: Home | None = None

    def act(self, chance: random.Random) -> None:
        keepers = self._keepers
        if self._home is None:
            self._home = keepers.new_home(self._account, chance)
            return
        home: Home = self._home
        if not home.written:  # before that it has nothing to rest with
            keepers.write(home, chance)
            return
        acts: list[tuple[int, Callable[[], Any]]] = [
            (50, lambda: keepers.write(home, chance)),
            (12, lambda: keepers.write_by_a_run(home, chance)),
            (8, lambda: keepers.remove(home, chance)),
            (10, lambda: keepers.ask_to_be(home, "STANDBY", chance)),
            (12, lambda: keepers.ask_to_be(home, "ARCHIVED", chance)),
            (8, lambda: self._delete(home, chance)),
        ]
        chance.choices([act for _, act in acts], weights=[weight for weight, _ in acts])[0]()
        time.sleep(chance.choice([0.0, 0.1, 0.5, 3.0]))

    def _delete(self, home: Home, chance: random.Random) -> None:
        self._keepers.delete(home, chance)
        time.sleep(chance.choice([0.0, 0.3, 2.0, 6.0]))
        if chance.random() < 0.7:
            self._keepers.undelete(home, chance)
        else:
            self._home = None


def _argv(program: str, act: str, home: Home, number: int, *more: int) -> list[str]:
    return ["/usr/bin/python3", "-c", program, act, home.name, str(number), *map(str, more)]
