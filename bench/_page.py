"""docs/performance.md and its plots, as what is kept says. `tests/unit/test_performance_page.py` compares them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import _plots, _results
from bench._figures import Figure, shown
from bench._results import Kept, Results

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PAGE: Final = DOCS / "performance.md"
PLOTS: Final = DOCS / "images"
BUSY_CORES: Final = 0.3
"""From here on the page says that the machine had other work."""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    says: str
    seconds: int
    """It may take, on two quiet cores."""


SECTIONS: Final[Mapping[str, Section]] = {
    "submit": Section(
        "A submit",
        "`POST /v1/runs` with 16 clients: ours; `bare`, the same trips, statements and send by raw drivers under the same"
        " server without any logic, as the measure of what is left to gain; and a FastAPI service with the same effects by"
        " SQLAlchemy's async ORM over asyncpg. All send by our thin SQS sender. They take turns.",
        75,
    ),
    "get": Section(
        "A poll",
        "`GET /v1/runs/{id}` with 16 clients, beside Django views and a raw driver that read the same row by one SELECT"
        " and know no rate, balance, trace or log; and a page of the list. A run that completed has the address of its result"
        " signed at each poll; one that failed has none.",
        85,
    ),
    "request_parts": Section(
        "Where a request's time goes",
        "Processor time of the thread that answers, by part, of one request after the other; what the tables above have beyond"
        " it is the server's loop, the way to a thread and back, and six threads at one interpreter. No part stands out. Of a"
        " submit's, what the bare server has as well (two statements, three trips, the message) is half, in libraries that say"
        " what went wrong where raw drivers do not. Tried without a gain: Django's middleware for sessions, forms, users and"
        " messages kept off the API's path (0.93 against 0.88 ms a poll, in turns), other switch intervals of the interpreter.",
        45,
    ),
    "worker_pool": Section(
        "Workers of others",
        "Tasks that do nothing, four at once, from a backlog. Those on SQS are 8 ms away from it, as in one region; Redis"
        " and Postgres answer at once, and Postgres waits for no disk. A life of ours is started, executed in a process of"
        " its own, stored, charged and committed; a task of the others does nothing. Other queues are known to us by what"
        " their makers publish alone, and are not compared here.",
        80,
    ),
    "worker_throughput": Section(
        "A life, part by part",
        "One worker with four slots under a backlog, SQS 8 ms away. Stand-ins for SQS and S3 are not in the processor time.",
        50,
    ),
    "fairness": Section(
        "A quiet tenant beside a flood",
        "Runs of 5 ms, one after the other, beside eight of 30 s of another tenant on four slots. A wait is from the hold"
        " to the start.",
        60,
    ),
    "floods": Section(
        "Floods",
        "A flood of weight 1, then one of weight 3, on four slots; and the statement that chooses the next run of a line"
        " that was just inserted and never analyzed. It is read by its own indexes alone"
        " (`test_dpp_88_the_next_of_a_long_line_is_found_without_reading_it`).",
        35,
    ),
    "starts": Section(
        "Starts of processes",
        "From the command until `/readyz` answers, or the first heartbeat stands. Processor time is that of the process"
        " and its children to their end.",
        80,
    ),
    "first_run": Section(
        "From nothing to a paid run",
        "A copy of the repository on a machine with Python and `make`: `make demo` without pip's cache, with its downloads,"
        " up to the bill of its run; then `make up` on what is there.",
        110,
    ),
    "run_writes": Section(
        "What a life writes", "Bytes of WAL from accept to commit, with two indexes more in turns with it as it is.", 25
    ),
    "growth": Section(
        "What grows",
        "Four weeks of ended runs of 100 tenants, half of them of one, with their charges; a tenth as many held and in the"
        " line; a hundred left behind for each recovery loop. In milliseconds, one call after the other, and below them"
        " how many pages of Postgres a call reads. *Flat* is what reads at most twice the pages of the smallest size, and"
        " 64 more, and takes at most three times as long, and 5 ms more.",
        255,
    ),
}
SECONDS: Final = {name: section.seconds for name, section in SECTIONS.items()}

_OPEN_OF_TENANT: Final = "with the tenant's open runs, which are read until the page is full of what was asked for"
GROWS: Final[Mapping[str, str]] = {
    "budget rebuild of all": "with the entries since the last daily sums, and with the open holds, which it writes",
    "money_verify of all": "with the same: each hold is compared with its run",
    "sums of holds, all tenants": "with the open runs",
    "sums of holds, a small tenant": "with the tenant's open runs",
    "hold auditor, all tenants": "with the open runs of tenants that have any: each hold is compared with its run",
    "budget": "with the tenant's open holds, which are read from Redis as of one moment",
    "list by a status": _OPEN_OF_TENANT,
    "list by a rare status": _OPEN_OF_TENANT,
    "list by a pack": _OPEN_OF_TENANT,
    "list by a rare pack": _OPEN_OF_TENANT,
    "console: first page": "with the runs of the last 24 hours, and with the open ones, which it counts",
    "console: its live fragment": "with the open runs, which it counts by state",
    "console: runs of a small tenant": "until 50 of the newest runs are that tenant's; it reads no further",
    "console: runs of a rare pack": "with the open runs of all tenants",
    "console: runs failed for a rare reason": "with the runs of that reason, of which the smallest size has one",
    "account: overview": "with the tenant's open holds",
    "account: runs/?status=FAILED": _OPEN_OF_TENANT,
    "account: runs/?pack=eval": _OPEN_OF_TENANT,
    "account: statement/": "with how far apart the tenant's entries lie, up to a page of Postgres for each of its lines",
    "account: usage/": "with the tenant's charges since the last daily sums",
    "metrics: runs": "with the open runs, which it counts by state",
}
"""What may, with the reason. The unit test refuses a page that has another."""
DRAWN: Final = (
    *("submit", "poll", "list", "list by a rare pack", "next of the line", "reaper's scan", "console: runs"),
    *("budget rebuild of all", "money_verify of all"),
)

_HEAD: Final = """# Performance: what was measured

Written by `make bench` from [what it keeps](../bench/results/latest.json); `python -m bench --write-docs` writes it again. Ratios within one run,
counts, and what grows. Nothing here is asserted but where a test is named: a machine may be slow. [scaling.md](scaling.md) says what to
make of them.

{machine}

`make bench` measures all of it anew, in a quarter of an hour on two quiet cores, `make bench B=NAME` one section;
`make bench B=growth ARGS="--most 10000000"` goes one size further. What others are compared with runs in environments of its own, whose locks stand in
`bench/peers/`.

## What a run asks for

| of | at most | shown by |
|---|---|---|
| Postgres | 6 statements a life, its submit included | `test_execution_counts` |
| Redis | 5 trips | the same |
| S3 | 1 PUT | the same |
| SQS, to receive and delete | 0.45 requests a run of a worker with 4 slots under a backlog of short runs, ten messages to each request | the same (`make prove`), `test_sqs_worker_ahead` |
| SQS, to send | 1 request alone; what threads of one API process send at once goes out together | `test_joined_sends` shows the joining |

What threads of one API process send at once took 0.33 requests a message with 6 threads, 0.25 with 8, 0.15 with 16, at 8 ms. So SQS is asked 0.35
times for a run in all where sixteen threads submit at once, and 0.53 times where six do; a submit that is alone costs a request of its own, and
a run of a quiet day 1.2 and more.
"""


def write(results: Results | None = None) -> None:
    found = _results.read() if results is None else results
    PAGE.write_text(page(found), encoding="utf-8")
    for name, plot in plots(found).items():
        (PLOTS / name).write_text(plot, encoding="utf-8")
    print(f"written: {PAGE.name}, {', '.join(plots(found))}", flush=True)


def page(results: Results) -> str:
    sections = [_section(name, section, results.benches.get(name)) for name, section in SECTIONS.items()]
    return "\n".join([_HEAD.format(machine=_machine(results)), *sections])


def plots(results: Results) -> dict[str, str]:
    rates = {figure.what: figure.value for figure in _figures(results, "worker_pool") if figure.unit == "/s"}
    series: dict[str, list[tuple[float, float]]] = {}
    for figure in _figures(results, "growth"):
        if figure.what in DRAWN and figure.rows is not None:
            series.setdefault(figure.what, []).append((figure.rows, figure.value))
    ours = [name for name in rates if name.startswith("ours")]
    return {
        "workers.svg": _plots.bars("Tasks a second, four at once", rates, unit="/s", ours=ours),
        "growth.svg": _plots.lines("Milliseconds by the runs in the tables", series, unit="ms"),
    }


def unexplained(results: Results) -> list[str]:
    """What grows and nobody said why."""
    series = _series(_figures(results, "growth"))
    return [what for what, figures in series.items() if not is_flat(figures) and what not in GROWS]


def is_flat(figures: Mapping[int, Figure]) -> bool:
    few, many = figures[min(figures)], figures[max(figures)]
    return (many.pages or 0) <= 2 * (few.pages or 0) + 64 and many.value <= 3 * few.value + 5


def _figures(results: Results, name: str) -> Iterable[Figure]:
    return results.benches[name].figures if name in results.benches else ()


def _machine(results: Results) -> str:
    if not results.machine:
        return "Nothing has been measured yet."
    machine = "{cores} cores of {cpu}, {memory_gib} GiB, {system}".format(**results.machine)
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    days = sorted({kept.measured for kept in results.benches.values()})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    busy = max(kept.busy_cores for kept in results.benches.values())
    note = "" if busy < BUSY_CORES else (
        f" **The machine had other work**: up to {busy:.1f} of its cores were busy before a bench began. So times and rates are worse than on"
        " a quiet one; ratios, processor time and pages say more."
    )  # fmt: skip
    return f"Measured {when} on {machine}; {versions}; Postgres, Valkey and all else on the same cores.{note}"


def _section(name: str, section: Section, kept: Kept | None) -> str:
    lines = [f"## {section.title}", "", f"{section.says} (`make bench B={name}`)", ""]
    if kept is None:
        return "\n".join([*lines, "Not measured yet.", ""])
    if kept.failed:
        lines += [f"**This bench failed**, and what is missing below is not known: {_plain(kept.failed)}", ""]
    if name == "growth":
        lines += _grown(_series(kept.figures))
    elif kept.figures:
        lines += _measured(kept.figures)
    if name == "worker_pool":
        lines += ["", "![Tasks a second of each worker, as in the table](images/workers.svg)"]
    return "\n".join([*lines, ""])


def _measured(figures: Iterable[Figure]) -> list[str]:
    rows = [
        f"| {figure.what} | {shown(figure.value)} {figure.unit}".rstrip() + f" | {_aim(figure)} |" for figure in figures
    ]
    return ["| what | measured | target |", "|---|---:|---|", *rows]


def _aim(figure: Figure) -> str:
    if figure.is_met is None:
        return ""
    return figure.target() + (": met" if figure.is_met else ": **missed**")


def _series(figures: Iterable[Figure]) -> dict[str, dict[int, Figure]]:
    found: dict[str, dict[int, Figure]] = {}
    for figure in figures:
        if figure.rows is not None:
            found.setdefault(figure.what, {})[figure.rows] = figure
    return found


def _grown(series: Mapping[str, Mapping[int, Figure]]) -> list[str]:
    sizes = sorted({rows for figures in series.values() for rows in figures})
    rows = []
    for what, figures in series.items():
        cells = [_cell(figures.get(size)) for size in sizes]
        verdict = "flat" if is_flat(figures) else "**grows**"
        rows.append(f"| {what} | {' | '.join(cells)} | {verdict} | {_aim(figures[max(figures)])} |")
    head = [f"| what | {' | '.join(f'{size:,} runs' for size in sizes)} | | target, ms |"]
    named = [f"- {what}: {why}." for what, why in GROWS.items() if what in series and not is_flat(series[what])]
    because = ["", "What grows does so by its nature:", "", *named] if named else []
    plot = ["", "![Milliseconds by the number of runs, as in the table](images/growth.svg)"]
    return [*head, f"|---|{'---:|' * len(sizes)}---|---|", *rows, *because, *plot]


def _cell(figure: Figure | None) -> str:
    return "" if figure is None else f"{shown(figure.value)} ms, {figure.pages or 0:,} p."


def _plain(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")[:300]
