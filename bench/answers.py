"""The same requests to two servers, answer by answer: those of the fuzz corpus, right and wrong, of one seed.

    make bench B=answers
    python -m dpp_project.devstack with-services -- python -m bench.answers --against FOLDER

Our API against granian's own WSGI server under the same Django; or against the API of another checkout, each with a
database of its own, which the requests change in the same way. Status, headers and body are compared to the byte, but
for what differs between any two answers (ids, times, tokens). It prints each kind of difference with one example.
"""

import argparse
import itertools
import json
import re
import socket
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import hypothesis
import psycopg
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.errors import InvalidSchema

from bench._servers import REPOSITORY, Server, Stage, ours, running, stage
from bench.submit import BODY
from tests.gear.servers.live_api import Client

REFERENCE: Final = "tests.gear.servers.wsgi_reference:application"
HOST: Final = "http://127.0.0.1"
KEY, OPERATOR, RUN, TENANT = "{KEY}", "{OPERATOR}", "{RUN}", "t_bench"
ASSOCIATED: Final = {"run_id": RUN, "tenant_id": TENANT}
PER_ADDRESS: Final = {("post", "/v1/runs"): 3, ("get", "/v1/runs"): 2, ("post", "/v1/runs/{run_id}/cancel"): 2}
"""How many shares of the cases; one where nothing is said. A reaper's run lasts a second and is one request."""
ONCE: Final = frozenset({("post", "/api/tickets/reaper/run")})
_CHANGING: Final = (
    (re.compile(rb"(?im)^date: .*?\r?$"), b"date: -\r"),
    (re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"), b"UUID"),
    (re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"), b"UUID"),
    (re.compile(rb"t_[0-9a-f]{32}"), b"TRACE"),
    (re.compile(rb"\d{4}-\d\d-\d\dT[0-9:.]+(Z|\+00:00)"), b"TIME"),
    (re.compile(rb'"next_cursor": ?"[^"]+"|cursor=[\w%=-]+'), b"CURSOR"),
    (re.compile(rb"X-Amz-[A-Za-z]+=[^&\"]+|\"(x-amz-[a-z]+|policy)\": ?\"[^\"]+\""), b"SIGNED"),
    (re.compile(rb"(?i)(x-ratelimit-(remaining|reset): |;[rt]=)\d+"), b"RATE"),
    (re.compile(rb"dpp_\w{8}"), b"KEY"),
)
_LIST_OF_DIFFERENCES: Final = 20


@dataclass(frozen=True)
class Case:
    name: str
    request: bytes

    def to(self, names: dict[str, str]) -> bytes:
        """With the names that this server has for what both have; the length is that of the body then."""
        head, _, body = self.request.partition(b"\r\n\r\n")
        for placeholder, value in names.items():
            head, body = (part.replace(placeholder.encode(), value.encode()) for part in (head, body))
        length = b"\r\nContent-Length: %d" % len(body) if body else b""
        return head + length + b"\r\n\r\n" + body


def cases(document: dict[str, Any], *, count: int, seed: int) -> list[Case]:
    results: list[Any] = list(schemathesis.openapi.from_dict(document).get_all_operations())
    operations = [result.ok() for result in results]
    shares = {one.label: PER_ADDRESS.get((one.method.lower(), one.path), 1) for one in operations}
    found: list[list[Case]] = []
    for operation in operations:
        is_once = (operation.method.lower(), operation.path) in ONCE
        wanted = 1 if is_once else count * shares[operation.label] // sum(shares.values())
        found.append(_cases_of(operation, count=wanted, seed=seed))
    return [case for some in itertools.zip_longest(*found) for case in some if case is not None]


def _cases_of(operation: Any, *, count: int, seed: int) -> list[Case]:
    found: list[Case] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=_drawn(operation), at_own=st.booleans())
    def draw(case: Any, at_own: bool) -> None:  # noqa: FBT001  hypothesis hands it over by name
        if at_own:
            known = {name: value for name, value in ASSOCIATED.items() if name in (case.path_parameters or {})}
            case.path_parameters = (case.path_parameters or {}) | known
        found.append(Case(operation.label, _raw(case, operation.path)))

    draw()
    return found


@st.composite
def _drawn(draw: st.DrawFn, operation: Any) -> Any:
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    try:
        return draw(st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes)))
    except InvalidSchema:
        hypothesis.reject()


def _raw(case: Any, path: str) -> bytes:
    key = OPERATOR if path.startswith(("/v1/tenants/", "/api/")) else KEY
    asked = requests.Request(**case.as_transport_kwargs(base_url=HOST)).prepare()
    target = (asked.url or "").removeprefix(HOST).replace("%7BRUN%7D", RUN)
    fixed = {"Host": "127.0.0.1", "Authorization": f"Bearer {key}", "X-Trace-Id": "trace-1"}
    own = {"content-length", "user-agent", "connection", "accept-encoding", *(name.lower() for name in fixed)}
    headers = fixed | {name: _text(value) for name, value in asked.headers.items() if name.lower() not in own}
    lines = [f"{asked.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    body: Any = asked.body or b""
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + (
        body.encode() if isinstance(body, str) else body
    )


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


DOCUMENT: Final = Case("document", b"GET /v1/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")


@dataclass
class Side:
    """A server, and what it calls the things that both have."""

    port: int
    names: dict[str, str]

    @classmethod
    def of(cls, server: Server, here: Stage) -> "Side":
        side = cls(server.port, {KEY: here.api_key, OPERATOR: _operator_key(here), RUN: ""})
        submit = Case("submit", _submit())
        side.names[RUN] = str(json.loads(side.answer(submit)[1])["run_id"])
        return side

    def answer(self, case: Case) -> tuple[bytes, bytes]:
        """As it came."""
        with Client(socket.create_connection(("127.0.0.1", self.port), timeout=30)) as client:
            client.send(case.to(self.names))
            try:
                received = client.receive(without_body=case.request.startswith(b"HEAD"))
            except ConnectionError as error:
                return type(error).__name__.encode(), b""
        return received.head, received.body

    def plain(self, case: Case) -> tuple[bytes, bytes]:
        """Without what differs between any two answers."""
        parts = list(self.answer(case))
        parts[0] += b"\r\n"
        for placeholder, value in self.names.items():
            parts = [part.replace(value.encode(), placeholder.encode()) for part in parts]
        for pattern, replacement in _CHANGING:
            parts = [pattern.sub(replacement, part) for part in parts]
        return parts[0], parts[1]


def _operator_key(here: Stage) -> str:
    """Its tenant may be there already; its buckets would else empty at a moment of their own on each side."""
    _manage(here, "create_tenant", "t_operator", check=False)
    with psycopg.connect(here.environ["DATABASE_URL"], autocommit=True) as postgres:
        postgres.execute("UPDATE tenants SET poll_rate_per_minute = 100000, submit_rate_per_minute = 100000")
    return _manage(here, "create_api_key", "t_operator", "--all-scopes", check=True)


def _manage(here: Stage, *command: str, check: bool) -> str:
    asked = [sys.executable, "manage.py", *command]
    done = subprocess.run(asked, cwd=here.folder, env=here.environ, check=check, capture_output=True, text=True)
    return done.stdout.strip()


def _submit() -> bytes:
    lines = ["POST /v1/runs HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {KEY}"]
    lines += ["Content-Type: application/json", "Idempotency-Key: bench-answers-first", "", ""]
    return "\r\n".join(lines).encode() + json.dumps(BODY).encode()


def compare(mine: Side, theirs: Side, asked: list[Case]) -> None:
    kinds: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    for case in asked:
        found, wanted = mine.plain(case), theirs.plain(case)
        statuses[found[0][9:12].decode()] += 1
        if found != wanted:
            kind = f"{case.name}: {_difference(wanted, found)}"
            kinds[kind] += 1
            if kinds[kind] == 1 and len(kinds) <= _LIST_OF_DIFFERENCES:
                print(f"{kind}\n  asked  {case.request[:600]!r}")
                for name, shown in zip(("theirs", "ours  "), _from_where_they_part(wanted, found), strict=True):
                    print(f"  {name} {shown!r}")
    print(f"{len(asked)} requests, answered {dict(sorted(statuses.items()))}")
    print(f"{kinds.total()} answers differ, in {len(kinds)} ways")
    for kind, times in kinds.most_common():
        print(f"  {times:5d} {kind}")


def _from_where_they_part(wanted: tuple[bytes, bytes], found: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Of the body where the heads differ in its length alone."""
    is_body = wanted[0][:12] == found[0][:12] and wanted[1] != found[1]
    before, after = (one[1] if is_body else one[0] for one in (wanted, found))
    pairs = enumerate(zip(before, after, strict=False))
    at = max(next((at for at, (a, b) in pairs if a != b), min(len(before), len(after))) - 80, 0)
    return before[at : at + 500], after[at : at + 500]


def _difference(wanted: tuple[bytes, bytes], found: tuple[bytes, bytes]) -> str:
    """Status, names of headers, or the body: what differs, in a form that is the same for alike differences."""
    before, after = (set(head.split(b"\r\n")) for head, _ in (wanted, found))
    if wanted[0][:12] != found[0][:12]:
        return f"{wanted[0][9:12].decode()} became {found[0][9:12].decode()}"
    names = sorted({line.partition(b":")[0].decode("latin-1") for line in before ^ after})
    return f"{found[0][9:12].decode()}, {', '.join([*names, *(['body'] if wanted[1] != found[1] else [])])}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--against", type=Path, help="the folder of another checkout, with a .venv")
    given = parser.parse_args()
    with ExitStack() as stack:
        here, there = stack.enter_context(stage()), stack.enter_context(stage(folder=given.against or REPOSITORY))
        server = stack.enter_context(ours(here))
        if given.against is None:
            other = stack.enter_context(running("reference", REFERENCE, there))
        else:
            other = stack.enter_context(ours(there, name="other"))
        mine, theirs = Side.of(server, here), Side.of(other, there)
        document = json.loads(theirs.answer(DOCUMENT)[1])
        compare(mine, theirs, cases(document, count=given.count, seed=given.seed))


if __name__ == "__main__":
    main()
