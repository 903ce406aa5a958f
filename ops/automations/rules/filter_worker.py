"""The process that evaluates filters: a line of JSON in (`filters`, `event`), a line out (an answer for each, up to the
first True). It knows no Django, no secret and no service, and ends when its standard input does.

They run in a child, with a limit of time on a core and one of memory: a child, because native code cannot be stopped
from inside; of this process, because one with threads is no place to fork. A child costs far more than a plain filter:
so all of an event's run in one, within the limits of one. Only where that is stopped each has a child of its own.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from runs.packs.compliance import expressions, limited_child
from runs.packs.compliance.limited_child import RuleStopped

CORE_SECONDS: Final = 0.5
"""Of one filter. A plain one takes a millisecond, 10,000 steps over small values take some tens of them."""
WALL_SECONDS: Final = 10.0
"""The same on a machine that has no core to give."""
EVENT_SECONDS: Final = 30.0
"""Of all filters of one event; those behind it are not tried."""


def main() -> None:
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        said = list(evaluate_filters(asked["filters"], asked["event"]))
        sys.stdout.buffer.write(json.dumps(said).encode() + b"\n")
        sys.stdout.buffer.flush()


def evaluate_filters(filters: Sequence[str], event: Mapping[str, Any]) -> Iterator[bool | str]:
    until = time.monotonic() + EVENT_SECONDS
    together = answers_together(filters, event) if len(filters) > 1 and time.monotonic() < until else None
    if together is not None:
        yield from together
        return
    for expression in filters:
        answer = evaluate_filter(expression, event) if time.monotonic() < until else "TOO_SLOW"
        yield answer
        if answer is True:
            return


def answers_together(filters: Sequence[str], event: Mapping[str, Any]) -> list[bool | str] | None:
    """None: they were stopped, by one of them or by all."""

    def in_time() -> list[bool | str]:
        signal.setitimer(signal.ITIMER_PROF, CORE_SECONDS)
        said: list[bool | str] = []
        for expression in filters:
            said.append(
                _plain_filter_answer(expressions.expression_holds(expression, subject="event", value=dict(event)))
            )
            if said[-1] is True:
                break
        return said

    try:
        answered: list[bool | str] = limited_child.run_in_limited_child(in_time, seconds=WALL_SECONDS)
    except RuleStopped:
        return None
    return answered


def _plain_filter_answer(said: Any) -> bool | str:
    return said if isinstance(said, bool) else str(said)


def evaluate_filter(expression: str, event: Mapping[str, Any]) -> bool | str:
    """True, False, the class of its error, or what stopped it."""

    def in_time() -> Any:
        signal.setitimer(signal.ITIMER_PROF, CORE_SECONDS)
        return expressions.expression_holds(expression, subject="event", value=dict(event))

    try:
        said = limited_child.run_in_limited_child(in_time, seconds=WALL_SECONDS)
    except RuleStopped as stopped:
        return stopped.reason
    return _plain_filter_answer(said)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at a terminal it is the parent's to end
    main()
    sys.stdout.flush()
    os._exit(0)
