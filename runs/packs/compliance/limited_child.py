"""Runs one of the caller's rules in a child process, with limits of time and memory.

A rule is a small program. Native code cannot be stopped from inside, so a schema that doubles at every reference or an
expression that hoards would take the whole run, and every other rule's answer, with it.
"""

import contextlib
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import Any, Final

from dpp_project.processes import child_limits
from runs.packs.pack import MEBIBYTE

ANSWER_BYTES_MAX: Final = 16 * MEBIBYTE
MEMORY_BYTES: Final = 96 * MEBIBYTE
_TOO_LARGE: Final = 3
"""Exit code of a child that ran out of memory in an orderly way."""


class RuleStopped(Exception):  # noqa: N818  named for what happened
    """No answer; `reason` says what stopped it: TOO_SLOW, TOO_LARGE, CRASHED, OUT_OF_TIME or HOLD_EXHAUSTED."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def run_in_limited_child(rule: Callable[[], Any], *, seconds: float) -> Any:
    """Run `rule` in a child and return its answer, passed through JSON."""
    until = time.monotonic() + seconds
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _run_rule_in_limited_child(rule, writing)
    os.close(writing)
    try:
        said = _heard(reading, until)
    except RuleStopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(reading)
        _, status = os.waitpid(child, 0)  # killed, or its last act was to close the pipe
    if not said.endswith(b"\n"):
        raise RuleStopped(_why_limited_child_ended(os.waitstatus_to_exitcode(status)))
    return json.loads(said)


def _why_limited_child_ended(code: int) -> str:
    """Native code that gets no memory aborts. SIGPROF is the timer of a rule that limits its time on a core itself."""
    if code == -signal.SIGPROF:
        return "TOO_SLOW"
    return "TOO_LARGE" if code in {_TOO_LARGE, -signal.SIGABRT} else "CRASHED"


def _run_rule_in_limited_child(rule: Callable[[], Any], writing: int) -> None:
    """In the child. It exits silently on any error: a message could quote the inputs."""
    code = 1
    try:
        child_limits.lower_limit(resource.RLIMIT_CORE, 0)
        child_limits.lower_memory(MEMORY_BYTES)
        with os.fdopen(writing, "wb") as answer:
            answer.write(json.dumps(rule()).encode() + b"\n")
        code = 0
    except (MemoryError, OverflowError):
        code = _TOO_LARGE
    finally:
        os._exit(code)


def _heard(reading: int, until: float) -> bytes:
    said = bytearray()
    while len(said) <= ANSWER_BYTES_MAX:
        ready, _, _ = select.select([reading], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise RuleStopped("TOO_SLOW")
        some = os.read(reading, MEBIBYTE)
        if not some:
            return bytes(said)
        said += some
    raise RuleStopped("TOO_LARGE")
