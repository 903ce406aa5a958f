"""Hold and settle: our scripts against the specification's own, in one run on one Valkey.

    make bench B=budget_scripts

`in turn` is one request after the other, as a process does it. The specification's reserve leaves EXPIRE to its
caller, a round trip of its own; `without EXPIRE` forgets it. `saturated` sends everything at once, so that only the
server's own work counts: ours does more of it (holds, receipt, gate, sequence). Blocks of both are interleaved, so that
a busy machine slows both.

One run on two cores:

    hold + settle             specification      ours   ratio
    in turn, pairs/s                  9,148    10,577    1.16
    without EXPIRE, pairs/s          12,947    10,946    0.85
    saturated, pairs/s               61,232    44,192    0.72
"""

import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import redis

from budget.redis import keys
from dpp_project.devstack import valkey
from tests.gear.reference.money import EPOCH, SCRIPTS, TENANT, run_keys

ROUNDS = 20
PAIRS = 500
LITERAL = Path(__file__).resolve().parents[1] / "tests" / "contract" / "literal"


class Side:
    def __init__(self, client: redis.Redis, *, literal: bool) -> None:
        self.client = client
        self.sha = {
            name: client.script_load(
                (LITERAL / f"{name}.lua").read_text(encoding="utf-8") if literal else SCRIPTS[name].text
            )
            for name in ("reserve", "settle")
        }
        self.literal = literal

    def commands(self, run_id: str, *, expire: bool = True) -> list[tuple[Any, ...]]:
        """What a process sends for one hold and its settle."""
        names = run_keys(TENANT, run_id)[: 2 if self.literal else 7]
        more_keys = {"settle": [] if self.literal else [keys.EVIDENCE]}
        amounts = {"reserve": [TENANT, "250000", "1772366400000"], "settle": ["50000"]}
        ours = {"reserve": [run_id, EPOCH], "settle": [TENANT, run_id, EPOCH]}
        made: list[tuple[Any, ...]] = []
        for name, arguments in amounts.items():
            more = [] if self.literal else ours[name]
            its = [*names, *more_keys.get(name, [])]
            made.append(("EVALSHA", self.sha[name], len(its), *its, *arguments, *more))
            if self.literal and expire and name == "reserve":
                made.append(("EXPIRE", names[1], 3_600))
        return made

    def in_turn(self, number: int, *, expire: bool) -> float:
        """Pairs a second, one request after the other."""
        began = time.perf_counter()
        for at in range(PAIRS):
            for command in self.commands(f"{expire}-{number}-{at}", expire=expire):
                self.client.execute_command(*command)  # type: ignore[no-untyped-call]
        return PAIRS / (time.perf_counter() - began)

    def saturated(self, number: int) -> float:
        """Pairs a second when the server never waits: all requests are packed before, and sent at once."""
        commands = [command for at in range(PAIRS) for command in self.commands(f"s{number}-{at}")]
        connection = self.client.connection_pool.get_connection()
        packed = connection.pack_commands(commands)  # type: ignore[no-untyped-call]  # untyped there
        began = time.perf_counter()
        connection.send_packed_command(packed)  # type: ignore[no-untyped-call]
        for _ in commands:
            connection.read_response()
        seconds = time.perf_counter() - began
        self.client.connection_pool.release(connection)
        return PAIRS / seconds


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, valkey.running(Path(folder)) as server:
        client = redis.Redis.from_url(server.url, decode_responses=True)
        client.set(keys.EPOCH, EPOCH)
        sides = {True: Side(client, literal=True), False: Side(client, literal=False)}
        found: dict[tuple[str, bool], list[float]] = defaultdict(list)
        for number in range(ROUNDS):
            for literal, side in sides.items():
                client.set(keys.balance(TENANT), 10**12)
                found["in turn", literal].append(side.in_turn(number, expire=True))
                found["without EXPIRE", literal].append(side.in_turn(number, expire=False))
                found["saturated", literal].append(side.saturated(number))
                client.flushall()
                client.set(keys.EPOCH, EPOCH)
    print(f"{'hold + settle':24s} {'specification':>14s} {'ours':>9s} {'ratio':>7s}")
    for name in ("in turn", "without EXPIRE", "saturated"):
        theirs, ours = (statistics.median(found[name, literal]) for literal in (True, False))
        print(f"{name + ', pairs/s':24s} {theirs:14,.0f} {ours:9,.0f} {ours / theirs:7.2f}")


if __name__ == "__main__":
    main()
