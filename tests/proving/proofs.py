"""`make prove`: every slow proof, two at a time, each telling its cases, seed and seconds, failing on a short count.

A proof is a command that calls `report` once or more. A proof that ran less than it promises has failed, whatever its
exit code says: a check that quietly checked nothing is worse than none. So has one that cannot run here, by name.

Most proofs wait more than they compute, so two share the machine, each with services of its own; what measures one
thing against another runs alone, at the end. The longest start first.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

REPORT_VARIABLE = "DPP_PROOF_REPORT"
BUDGET_SECONDS = 85 * 60
LANES = 2
LIMIT_PERCENT = 130
"""Of what was measured. A proof that has grown by a third is looked at; what is still to come needs the rest."""
SKIPPED = 77
"""What a proof exits with that cannot run here and has said why."""
NOT_SHOWN = "skipped: shown is nothing, and the reason stands above"
WITH_SERVICES = (sys.executable, "-m", "dpp_project.devstack", "with-services", "--")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-m", "slow")
JOURNEYS = tuple(f"tests/acceptance/test_journeys_{whose}.py" for whose in ("account", "console", "docs"))
WAITING = (*PYTEST, "-n", "3", "--dist", "worksteal")
"""For what waits for processes that it starts and kills."""
FUZZ_CASES = 20_000
FUZZ = (sys.executable, "-m", "pytest", "-q", "-n", "2", "tests/acceptance/test_openapi_fuzz.py")


@dataclass(frozen=True)
class Proof:
    name: str
    shows: str
    command: Sequence[str]
    least_cases: int
    measured_seconds: int
    """What it took in a whole `make prove` on two quiet cores."""
    alone: bool = False
    """It compares times within its run, and a neighbour would be measured too."""
    setup: str = ""
    """What installs what it is skipped without."""

    @property
    def limit_seconds(self) -> int:
        return self.measured_seconds * LIMIT_PERCENT // 100


@dataclass(frozen=True)
class Told:
    cases: int
    seeds: tuple[str, ...]
    met: Counter[str] = field(default_factory=Counter)


PROOFS: tuple[Proof, ...] = (
    Proof(
        name="journeys",
        shows="every page for people, empty and full, in a real browser: no error, no request elsewhere, axe clean",
        command=(*PYTEST, "-n", "1", *JOURNEYS),
        least_cases=6,
        measured_seconds=170,
    ),
    Proof(
        name="devstack",
        shows="the platform killed in part or whole, or its supervisor at any moment of its start, comes back",
        command=(*PYTEST, "tests/acceptance", *(f"--ignore={one}" for one in JOURNEYS)),
        least_cases=57,
        measured_seconds=400,
    ),
    Proof(
        name="image",
        shows="the container image, built for real, sells runs read-only and without a privilege, and drains",
        command=(*PYTEST, "-n", "0", "tests/image"),
        least_cases=12,
        measured_seconds=130,
    ),
    Proof(
        name="workers",
        shows="worker and waiting clients outlive a black-holed database, and many lives share their requests to SQS",
        command=(
            *(*WAITING, "tests/crash/test_execution_workers.py", "tests/integration/runs/test_execution_counts.py"),
            *("tests/integration/runs/test_execution_slots.py", "tests/integration/platform/test_sqs_worker.py"),
            *("tests/integration/platform/test_metrics_processes.py", "tests/race/test_load_without_faults.py"),
            *("tests/integration/platform/test_heartbeats.py", "tests/integration/runs/test_waiting_outages.py"),
        ),
        least_cases=742,
        measured_seconds=115,
    ),
    Proof(
        name="money",
        shows="scripts and model agree, and not a micro is wrong, after every step of every schedule",
        command=(*PYTEST, "tests/stateful/test_budget_machine.py"),
        least_cases=200_000,
        measured_seconds=260,
    ),
    Proof(
        name="caps",
        shows="ten processes at the scripts at once pass no limit, and the model answers their log word for word",
        command=(*PYTEST, "tests/race/test_caps_at_once.py"),
        least_cases=60_000,
        measured_seconds=30,
    ),
    Proof(
        name="model",
        shows="the protocol, in every order of steps with bounded faults, holds; without any of its points it fails",
        command=(sys.executable, "-m", "models.check", "--install"),
        least_cases=200_000_000,
        measured_seconds=790,
        setup="make setup-model",
    ),
    Proof(
        name="homes",
        shows="struck at each effect, overtaken or taken back at each step, a workspace loses no byte",
        command=(
            *PYTEST,
            "-n",
            "2",
            "tests/crash/test_workspace_crashes.py",
            "tests/integration/workspaces/test_workspace_operations.py",
            "tests/integration/workspaces/test_workspace_failures.py",
            "tests/stateful/test_workspace_machine.py",
        ),
        least_cases=330,
        measured_seconds=320,
    ),
    Proof(
        name="crash",
        shows="killed or cut at every request it sends, whatever it was doing, each run ends once, charged once",
        command=(*WAITING, "tests/crash/test_reaper_cutpoints.py", "tests/crash/test_caps_crashes.py"),
        least_cases=3_300,
        measured_seconds=940,
    ),
    Proof(
        name="events",
        shows="killed at each request and any moment, thrice delivered: each event has its effect once, none is lost",
        command=(
            *(*PYTEST, "tests/integration/outbox/test_outbox_processes.py", "tests/crash/test_outbox_crashes.py"),
            *("tests/race/test_outbox_many.py", "tests/integration/outbox/test_outbox_snapshots.py"),
        ),
        least_cases=4_500,
        measured_seconds=145,
    ),
    Proof(
        name="backlog",
        shows="20,000 runs of dead workers end in one pass of the reaper, each at its fee, not a micro wrong",
        command=(*PYTEST, "tests/integration/reaper/test_recovery_backlog.py"),
        least_cases=20_000,
        measured_seconds=60,
    ),
    Proof(
        name="automations",
        shows="killed or cut at each request, or two at once: of an event one task, one run, one charge, one message",
        command=(*WAITING, "tests/crash/test_automation_crashes.py", "tests/race/test_automation_rivals.py"),
        least_cases=6_000,
        measured_seconds=120,
    ),
    Proof(
        name="tickets",
        shows="killed and cut at every request of a cycle, each ticket ends once, and what it asks for is done once",
        command=(
            *(*WAITING, "tests/crash/test_tickets_crashes.py", "tests/race/test_tickets_reaper_race.py"),
            *("tests/race/test_tickets_rivals.py", "tests/crash/test_tickets_outages.py"),
        ),
        least_cases=2_500,
        measured_seconds=545,
    ),
    Proof(
        name="schedules",
        shows="worker, reaper, reconciler and cancel over one run, every order of three preemptions, and not one wrong",
        command=(*PYTEST, "tests/race/test_reaper_schedules.py", "tests/race/test_turns_schedules.py"),
        least_cases=11_000,
        measured_seconds=350,
    ),
    Proof(
        name="platform",
        shows="with every actor dying or overtaken at any effect, each run ends once and every micro has its place",
        command=(*PYTEST, "tests/stateful/test_platform_machine.py"),
        least_cases=6_000,
        measured_seconds=175,
    ),
    Proof(
        name="workspaces",
        shows="what starts and ends workspaces, killed at any moment, leaves no process and no folder unknown",
        command=(
            *(*PYTEST, "-n", "0", "tests/integration/workspaces/test_process_driver_deaths.py"),
            "tests/integration/workspaces/test_workspace_field_reports.py",
        ),
        least_cases=350,
        measured_seconds=110,
    ),
    Proof(
        name="chaos",
        shows="under load, with all of it killed, cut, stopped, flushed and rolled back, no run and no micro is lost",
        command=(sys.executable, "-m", "tests.proving.chaos", "--seconds", "150", "--drain", "420"),
        least_cases=200,
        measured_seconds=505,
    ),
    Proof(
        name="restart",
        shows="all of it stopped and started in the middle of automations' tasks, and of each event one message",
        command=(sys.executable, "-m", "tests.proving.restart"),
        least_cases=8,
        measured_seconds=85,
    ),
    Proof(
        name="rollback",
        shows="over a real Postgres from the past no money moves, and once it is accepted not a micro is wrong",
        command=(sys.executable, "-m", "tests.proving.rollback"),
        least_cases=7,
        measured_seconds=80,
    ),
    Proof(
        name="restore",
        shows="Postgres restored from backup and WAL to the moment before a charge, and the account whole again",
        command=(sys.executable, "-m", "tests.proving.restore"),
        least_cases=5,
        measured_seconds=50,
    ),
    Proof(
        name="hosts",
        shows="a host frozen, hung or unplugged in the middle of a rebuild keeps money closed no longer than 60 s",
        command=(sys.executable, "-m", "tests.proving.hosts"),
        least_cases=2,
        measured_seconds=125,
    ),
    Proof(
        name="constants",
        shows="killed at each request, under real constants and a real beat, each run ends once, in its time",
        command=(*PYTEST, "tests/crash/test_real_constants.py"),
        least_cases=150,
        measured_seconds=445,
    ),
    Proof(
        name="siege",
        shows="under 200 hostile connections of nine kinds an honest client is answered soon, and memory stays bounded",
        command=(*PYTEST, "tests/race/test_siege.py"),
        least_cases=600,
        measured_seconds=112,
        alone=True,
    ),
    Proof(
        name="agents",
        shows="10,000 calls of tools, right and wrong, of both eras of MCP, leave no memory and no open file behind",
        command=(*PYTEST, "tests/integration/mcp/test_mcp_memory.py"),
        least_cases=10_000,
        measured_seconds=60,
    ),
    Proof(
        name="fuzz",
        shows="no request, right or wrong, is answered 5xx, or with a status or a body that the document does not have",
        command=("env", f"DPP_FUZZ_CASES={FUZZ_CASES}", *FUZZ),
        least_cases=FUZZ_CASES,
        measured_seconds=225,
    ),
    Proof(
        name="traces",
        shows="a fault has one hash in a thousand mutations of each golden trace, and no text is read in square time",
        command=(*PYTEST, "-n", "2", "tests/unit/test_auth_errors_grouping.py", "tests/unit/test_auth_errors_worst.py"),
        least_cases=108_400,
        measured_seconds=100,
    ),
    Proof(
        name="packs",
        shows="each kind of page is read, the largest within its memory, and attacks reach what no box closes",
        command=(*PYTEST, "tests/integration/packs"),
        least_cases=14,
        measured_seconds=60,
    ),
    Proof(
        name="logs",
        shows="eight processes write on while their files are renamed twenty times, and each line stands once",
        command=(*PYTEST, "-m", "slow", "tests/integration/lifecycle"),
        least_cases=800_000,
        measured_seconds=30,
    ),
    Proof(
        name="mutants",
        shows="each planted fault is found by the tests that it names (a third of them, another each day)",
        command=(sys.executable, "-m", "tests.proving.mutants", "--third"),
        least_cases=290,
        measured_seconds=1150,
    ),
)


def report(*, cases: int, seed: object = "none", met: Mapping[str, int] = MappingProxyType({})) -> None:
    """Told by a proof, from any process: how many cases it has run, what repeats them, and what they met how often."""
    if path := os.environ.get(REPORT_VARIABLE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"cases": cases, "seed": str(seed), "met": dict(met)}) + "\n")


def read_report(path: Path) -> Told:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    seeds = tuple(sorted({line["seed"] for line in lines} - {"none"}))
    met = sum((Counter(line["met"]) for line in lines), Counter[str]())
    return Told(cases=sum(line["cases"] for line in lines), seeds=seeds, met=met)


def verdict(proof: Proof, *, exit_code: int, told: Told, seconds: float) -> str | None:
    """Why the proof failed, or None."""
    if exit_code == SKIPPED:
        return NOT_SHOWN
    if exit_code != 0:
        return f"exit code {exit_code}"
    if told.cases < proof.least_cases:
        return f"{told.cases} cases, promised are {proof.least_cases}"
    if seconds > proof.limit_seconds:
        return f"{seconds:.0f} s, allowed are {proof.limit_seconds}"
    return None


def run(proof: Proof) -> str | None:
    """Why it failed, or None. What it printed comes in one piece, when it has ended."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as told_file, tempfile.TemporaryFile("w+") as said_file:
        started = time.monotonic()
        environ = os.environ | {REPORT_VARIABLE: told_file.name}
        command = (*WITH_SERVICES, *proof.command)
        ran = subprocess.run(command, env=environ, stdout=said_file, stderr=subprocess.STDOUT, check=False)
        seconds = time.monotonic() - started
        told = read_report(Path(told_file.name))
        said_file.seek(0)
        output = said_file.read()
    failed = verdict(proof, exit_code=ran.returncode, told=told, seconds=seconds)
    said = f"cases={told.cases} seed={','.join(told.seeds) or 'none'} seconds={seconds:.0f}"
    said += "".join(f" {what}={count}" for what, count in sorted(told.met.items()))
    ending = f"{said} {'FAILED: ' + failed if failed else 'holds'}"
    print(f"== {proof.name}: {proof.shows}\n{output}== {proof.name}: {ending}", flush=True)  # noqa: T201
    return failed


def in_turns(chosen: Iterable[Proof]) -> Iterator[list[Proof]]:
    """What runs beside each other, then each that must be alone."""
    beside: list[Proof] = []
    alone: list[Proof] = []
    for proof in sorted(chosen, key=lambda proof: -proof.measured_seconds):
        (alone if proof.alone else beside).append(proof)
    return itertools.chain([beside], ([proof] for proof in alone))


def most_seconds(chosen: Iterable[Proof]) -> int:
    """What they take, each at its limit, with the next begun in the lane that is free first."""
    total = 0
    for turn in in_turns(chosen):
        lanes = [0] * LANES
        for proof in turn:
            lanes[lanes.index(min(lanes))] += proof.limit_seconds
        total += max(lanes)
    return total


def last_words(*, held: int, failed: Sequence[str], skipped: Sequence[Proof], seconds: float) -> str:
    if not failed and not skipped:
        return f"all hold, in {seconds:.0f} s"
    names = ", ".join(proof.name for proof in skipped)
    said = [f"FAILED: {', '.join(failed)}"] if failed else [f"all but {names} hold"] if held else []
    if skipped:
        said.append(f"skipped, and shown nothing: {names}")
        said += [f"`{proof.setup}` installs what {proof.name} needs" for proof in skipped if proof.setup]
    return "; ".join(said)


def main() -> int:
    names = [proof.name for proof in PROOFS]
    parser = argparse.ArgumentParser(prog="make prove", description=__doc__)
    parser.add_argument("only", nargs="*", help=f"some of: {', '.join(names)}")
    chosen = parser.parse_args().only or names
    if unknown := set(chosen) - set(names):
        parser.error(f"no proof is called {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    started, ended = time.monotonic(), list[tuple[Proof, str | None]]()
    for turn in in_turns(proof for proof in PROOFS if proof.name in chosen):
        with ThreadPoolExecutor(LANES) as lanes:
            ends = {lanes.submit(run, proof): proof for proof in turn}
            ended += [(ends[end], end.result()) for end in as_completed(ends)]
    seconds = time.monotonic() - started
    skipped = [proof for proof, why in ended if why == NOT_SHOWN]
    failed = [proof.name for proof, why in ended if why not in {None, NOT_SHOWN}]
    held = len(ended) - len(skipped) - len(failed)
    if seconds > BUDGET_SECONDS:
        failed.append(f"all proofs together took {seconds:.0f} s, allowed are {BUDGET_SECONDS}")
    print(f"prove: {last_words(held=held, failed=failed, skipped=skipped, seconds=seconds)}")  # noqa: T201
    return 1 if failed or skipped else 0


if __name__ == "__main__":
    sys.exit(main())
