"""What the command shows: results on standard output, what goes on meanwhile on standard error."""

import json
import re
import shutil
import sys
from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal
from typing import Any

from dpp.documents import ApiKey, Budget, Progress, Run, RunSummary, StepEvent, usd
from dpp.streams import Followed

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def say_on_screen(text: str) -> None:
    sys.stdout.write(text + "\n")


def tell_on_screen(text: str) -> None:
    sys.stderr.write(text + "\n")


def say_json(document: Any) -> None:
    say_on_screen(json.dumps(document, ensure_ascii=False, indent=2))


def plain_for_screen(text: str) -> str:
    """What others wrote may hold orders to a terminal."""
    return _CONTROL.sub(" ", text)


def dollars(micros: int) -> str:
    return f"{usd(micros).quantize(Decimal('0.0001'), ROUND_DOWN)} USD"


def show_run(run: RunSummary) -> None:
    say_on_screen(f"{run.run_id}  {run.pack_type}  {run.status}  {run.money_state}")
    say_on_screen(f"  reserved {dollars(run.cost.reserved_usd_micros)}, used {dollars(run.cost.used_usd_micros)}")
    for key, value in run.metadata.items():
        say_on_screen(f"  {key} = {plain_for_screen(value)}")
    if isinstance(run, Run):
        _show_end(run)


def _show_end(run: Run) -> None:
    if run.completed:
        say_on_screen(f"  result: dpp download {run.run_id}")
        for one in run.artifacts or ():
            say_on_screen(f"  file: dpp download {run.run_id} --artifact {one.name}  ({one.size} bytes)")
    elif run.result is not None and run.result.reason_code is not None:
        detail = "" if run.result.problem is None else f": {plain_for_screen(run.result.problem.detail)}"
        say_on_screen(f"  {run.result.reason_code}{detail}")


def show_budget(budget: Budget) -> None:
    say_on_screen(f"balance   {dollars(budget.balance_usd_micros)}")
    say_on_screen(f"held      {dollars(budget.held_usd_micros)}")
    say_on_screen(f"charged   {dollars(budget.charged_usd_micros)}")
    say_on_screen(f"credited  {dollars(budget.credited_usd_micros)}")
    for cap in budget.caps:
        left, limit = dollars(cap.left_usd_micros), dollars(cap.limit_usd_micros)
        say_on_screen(f"cap of this {cap.scope}, {cap.period} ({cap.window}): {left} left of {limit}")


def show_keys(keys: Sequence[ApiKey]) -> None:
    for key in keys:
        spent = f"{dollars(key.spent.month_usd_micros)} this month, {dollars(key.spent.total_usd_micros)} ever"
        say_on_screen(f"{key.prefix}  {plain_for_screen(key.label or '-')}  {key.raw.get('status', '')}  {spent}")


class Display:
    """One line that changes on a terminal; a line for each step otherwise, so that a log can be read."""

    def __init__(self) -> None:
        self._is_live = sys.stderr.isatty()
        self._works = False

    def show(self, event: Followed) -> None:
        text = _progress(event) if isinstance(event, Progress) else self._step(event)
        if self._is_live:
            columns = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[K{text[:columns]}")
            sys.stderr.flush()
        elif isinstance(event, StepEvent) or event.note:
            tell_on_screen(text)

    def _step(self, event: StepEvent) -> str:
        """PROCESSING comes a second time when the work is done, and its money about to move."""
        finishes = self._works and event.status == "PROCESSING"
        self._works = event.status == "PROCESSING"
        return "PROCESSING, finishing" if finishes else _step(event)

    def end(self) -> None:
        if self._is_live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _step(event: StepEvent) -> str:
    cost = "" if event.used_usd_micros is None else f", used {dollars(event.used_usd_micros)}"
    return f"{event.status}{cost}" + (f", {event.reason_code}" if event.reason_code else "")


def _progress(event: Progress) -> str:
    if event.percent is None:
        return plain_for_screen(event.note or event.line or "")
    filled = max(0, min(20, int(event.percent // 5)))
    return f"[{'#' * filled}{'.' * (20 - filled)}] {event.percent:.0f} % {plain_for_screen(event.note or '')}".rstrip()
