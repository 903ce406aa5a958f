"""Hold and settle: our scripts against the specification's own, and against ours before caps, in one run on one Valkey.

    make bench B=budget_scripts

`in turn` is one request after the other, as a process does it. The specification's reserve leaves EXPIRE to its
caller, a round trip of its own; `without EXPIRE` forgets it. `saturated` sends everything at once, so that only the
server's own work counts: ours does more of it (holds, receipt, gate, sequence). Blocks of all sides are interleaved, so
that a busy machine slows them alike.

The cost of caps is the time of the server's processor for a pair, beside the scripts of `bench/peers/before_caps/`,
which stood before caps did; the ratio is the median of the rounds'. A run is dated and has a key in each; `one scope`
is the key's, with limits of a day and a month, `two scopes` the tenant's too.

One run on two cores:

    hold + settle             specification      ours   ratio
    in turn, pairs/s                  9,148    10,577    1.16
    without EXPIRE, pairs/s          12,947    10,946    0.85
    saturated, pairs/s               61,232    44,192    0.72

Another, on the same two with nothing else to do:

    cost of caps                    us/pair    cost x   saturated   in turn
    before caps                       24.96      1.00        1.00      1.00
    no caps                           26.41      1.05        1.04      1.06
    one scope                         35.92      1.44        1.46      1.14
    two scopes                        41.64      1.67        1.68      1.17

While every hold and end went through the functions of counters.lua these were 1.12, 1.80 and 2.16: a server makes the
functions and tables of a script at each call, which cost as much as the reading and writing of the counters.
"""

import statistics
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import redis

from budget.redis import keys
from budget.redis.windows import Counted, date_number
from dpp_project.devstack import valkey
from tests.gear.reference.money import EPOCH, SCRIPTS, TENANT, caps_keys, run_keys

ROUNDS = 20
PAIRS = 500
LITERAL = Path(__file__).resolve().parents[1] / "tests" / "contract" / "literal"
BEFORE_CAPS = Path(__file__).resolve().parent / "peers" / "before_caps"
COUNTED = Counted("key", date(2026, 4, 30))
WIDE = str(10**15)


@dataclass(frozen=True)
class Kind:
    name: str
    texts: Path | None = None
    """None: the scripts as they are."""
    scopes: tuple[str | None, ...] | None = ()
    """The lineages that are capped, None for the tenant; where it is None itself, no run counts anywhere."""

    @property
    def is_literal(self) -> bool:
        return self.texts == LITERAL


SPECIFICATION = Kind("specification", LITERAL, None)
BEFORE = Kind("before caps", BEFORE_CAPS, None)
UNCAPPED = Kind("no caps")
ONE_SCOPE = Kind("one scope", scopes=("key",))
TWO_SCOPES = Kind("two scopes", scopes=(None, "key"))
KINDS = (SPECIFICATION, BEFORE, UNCAPPED, ONE_SCOPE, TWO_SCOPES)


class Side:
    def __init__(self, client: redis.Redis, kind: Kind) -> None:
        self.client = client
        self.kind = kind
        self.sha = {name: client.script_load(self._text(name)) for name in ("reserve", "settle")}

    def _text(self, name: str) -> str:
        texts = self.kind.texts
        return SCRIPTS[name].text if texts is None else (texts / f"{name}.lua").read_text(encoding="utf-8")

    def begin(self) -> None:
        self.client.flushall()
        self.client.set(keys.EPOCH, EPOCH)
        self.client.set(keys.balance_key(TENANT), 10**12)
        limits = [WIDE, "", WIDE, ""]
        for lineage in self.kind.scopes or ():
            arguments = [TENANT, EPOCH, "1", *limits, "new"]
            SCRIPTS["caps"](self.client, keys=caps_keys(TENANT, lineage), args=arguments)

    def commands(self, run_id: str, *, expire: bool = True) -> list[tuple[Any, ...]]:
        """What a process sends for one hold and its settle."""
        literal, counts = self.kind.is_literal, self.kind.scopes is not None
        names = run_keys(TENANT, run_id)[: 2 if literal else 7]
        scopes = keys.scope_keys(TENANT, COUNTED.lineage_id) if counts else []
        day = [date_number(COUNTED.day)] if counts else []
        more_keys = {"reserve": scopes, "settle": [] if literal else [keys.EVIDENCE, *scopes]}
        amounts = {"reserve": [TENANT, "250000", "1772366400000"], "settle": ["50000"]}
        ours = {
            "reserve": [run_id, EPOCH, *day, *self._least_revisions()],
            "settle": [TENANT, run_id, EPOCH, *day],
        }
        made: list[tuple[Any, ...]] = []
        for name, arguments in amounts.items():
            more = [] if literal else ours[name]
            its = [*names, *more_keys[name]]
            made.append(("EVALSHA", self.sha[name], len(its), *its, *arguments, *more))
            if literal and expire and name == "reserve":
                made.append(("EXPIRE", names[1], 3_600))
        return made

    def _least_revisions(self) -> list[str]:
        """What a process knows of the caps: all of them, but for the seconds after a change."""
        capped = self.kind.scopes
        return [] if capped is None else ["1" if lineage in capped else "0" for lineage in (None, COUNTED.lineage_id)]

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

    def processor_seconds(self, number: int) -> float:
        """What the server's processor spends on a block of pairs: no neighbour on the machine is in it."""
        before = self._spent()
        self.saturated(number)
        return self._spent() - before

    def _spent(self) -> float:
        found: Any = self.client.info("cpu")
        return float(found["used_cpu_user_main_thread"]) + float(found["used_cpu_sys_main_thread"])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, valkey.running_valkey(Path(folder)) as server:
        client = redis.Redis.from_url(server.url, decode_responses=True)
        sides = [Side(client, kind) for kind in KINDS]
        found: dict[tuple[str, Kind], list[float]] = defaultdict(list)
        for number in range(ROUNDS):
            for side in sides:
                side.begin()
                found["in turn", side.kind].append(side.in_turn(number, expire=True))
                if side.kind in (SPECIFICATION, UNCAPPED):
                    found["without EXPIRE", side.kind].append(side.in_turn(number, expire=False))
                found["saturated", side.kind].append(side.saturated(number))
                found["processor", side.kind].append(side.processor_seconds(number + ROUNDS))
    print(f"{'hold + settle':24s} {'specification':>14s} {'ours':>9s} {'ratio':>7s}")
    for name in ("in turn", "without EXPIRE", "saturated"):
        theirs, ours = (statistics.median(found[name, kind]) for kind in (SPECIFICATION, UNCAPPED))
        print(f"{name + ', pairs/s':24s} {theirs:14,.0f} {ours:9,.0f} {ours / theirs:7.2f}")
    print(f"\n{'cost of caps':24s} {'us/pair':>14s} {'cost x':>9s} {'saturated':>11s} {'in turn':>9s}")
    for kind in KINDS[1:]:
        micros = statistics.median(found["processor", kind]) / PAIRS * 1e6
        costs = [
            ours / theirs for ours, theirs in zip(found["processor", kind], found["processor", BEFORE], strict=True)
        ]
        slower = [
            statistics.median(
                theirs / ours for ours, theirs in zip(found[name, kind], found[name, BEFORE], strict=True)
            )
            for name in ("saturated", "in turn")
        ]
        print(f"{kind.name:24s} {micros:14.2f} {statistics.median(costs):9.2f} {slower[0]:11.2f} {slower[1]:9.2f}")


if __name__ == "__main__":
    main()
