"""Whether a rule is meant for an event: a CEL expression over `event`, by the compliance pack's engine and its bounds.

2,000 characters, 10,000 steps of its macros, a depth of 32, `matches` by RE2. CEL counts the steps, not what each
costs: thousands of matches in a text of half a megabyte take two minutes, and the stranger who made the event chose how
many and how long. So filters run in a process beside this one (`filter_worker.py`), each for half a second of a core
and within 96 MiB.

What cannot be answered (the event lacks a name, the steps are used up) is no match, and the rule tester shows why.
Where a limit is reached, no rule behind it buys either: who made the event would choose by it which of them does.
"""

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from dpp_project.processes.per_process import PerProcess
from dpp_project.refusals import Refusal, invalid
from runs.packs.compliance import expressions
from runs.packs.compliance.expressions import ExpressionRefused

log = structlog.get_logger("dpp.automations")

FIELD: Final = "filter"
STOPPED: Final = frozenset({"TOO_SLOW", "TOO_LARGE", "CRASHED"})
"""Of answers, those that say that a limit was reached."""
WORKER: Final = "ops.automations.rules.filter_worker"
ANSWER_SECONDS: Final = 50.0
"""Longer than a worker gives all filters of an event: only one that does not answer is given up. Twice as long a loop
may be silent without being taken for one that hangs."""
READ_AT_ONCE: Final = 65_536
_ROOT: Final = Path(__file__).parents[3]
_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG")


def fault_of_filter(expression: str) -> Refusal | None:
    if len(expression) > expressions.LENGTH_MAX:
        return invalid(FIELD, f"must be at most {expressions.LENGTH_MAX} characters")
    if not expression:
        return None
    try:
        expressions.compiled_expression(expression, "event")
    except ExpressionRefused as refused:
        return invalid(FIELD, str(refused))
    return None


class NotAnswered(Exception):  # noqa: N818  a finding
    """By no fault of the event's: the process of filters died or was silent, twice."""


def answer_of_filter(expression: str, event: Mapping[str, Any]) -> bool | str:
    """True, False, the class of its error, such as NOT_FOUND, or what stopped it."""
    try:
        return answers_of_filters([expression], event)[0]
    except NotAnswered:
        return "CRASHED"


def answers_of_filters(filters: Sequence[str], event: Mapping[str, Any]) -> list[bool | str]:
    """One for each filter, up to the first True: those behind it are not asked. An empty filter is True.

    Raises NotAnswered.
    """
    asked = list(filters[: filters.index("")]) if "" in filters else list(filters)
    said = _worker().ask(asked, event) if asked else []
    return said if (said and said[-1] is True) or len(asked) == len(filters) else [*said, True]


class FilterWorker:
    """The process, started when it is first asked. One that died meanwhile is started anew, once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, filters: Sequence[str], event: Mapping[str, Any]) -> list[bool | str]:
        line = json.dumps({"filters": list(filters), "event": event}).encode() + b"\n"
        with self._lock:
            said = self._asked(line) or self._asked(line)
        if not said:
            log.error("filters were not answered", filters=len(filters))
            raise NotAnswered
        answered: list[bool | str] = json.loads(said)
        return answered

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def end(self) -> None:
        with self._lock:
            self._end()

    def _asked(self, line: bytes) -> bytes:
        """Empty: it died, or did not answer, and is ended."""
        if self._process is None:
            self._process = _started()
        try:
            said = _heard(self._process, line)
        except OSError as error:
            log.warning("the process of filters is gone", exc_info=error)
            said = b""
        except BaseException:
            self._end()  # the next to ask would hear the answer to this
            raise
        if not said:
            self._end()
        return said

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # what was not written is lost with it
                        pipe.close()
            process.wait()


def _started() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603  our own module
        [sys.executable, "-m", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=_ROOT,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
    )


def _heard(process: "subprocess.Popen[bytes]", line: bytes) -> bytes:
    """The line that answers this one; empty where none comes."""
    assert process.stdin is not None  # noqa: S101  both are pipes
    assert process.stdout is not None  # noqa: S101
    process.stdin.write(line)
    process.stdin.flush()
    said, until, readable = b"", time.monotonic() + ANSWER_SECONDS, select.poll()
    readable.register(process.stdout, select.POLLIN)
    while not said.endswith(b"\n"):
        ready = readable.poll(max(0.0, until - time.monotonic()) * 1_000)
        some = os.read(process.stdout.fileno(), READ_AT_ONCE) if ready else b""
        if not some:
            return b""
        said += some
    return said


@PerProcess
def _worker() -> FilterWorker:
    made = FilterWorker()
    atexit.register(made.end)  # by itself it ends with its standard input; so no pipe is left open either
    return made
