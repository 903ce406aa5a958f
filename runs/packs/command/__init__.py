"""Runs a command in one of the tenant's own workspaces, sold by the second (WSP-13).

The command is begun once, and never again: the workspace's init refuses its id a second time. It ends by itself, at its
own deadline, or when the hold is used up, and each of these is a result: the seconds were used. It is killed at its
deadline by that init, also where its worker is gone by then.
"""

import asyncio
import time
from typing import Any, Final

from pydantic import JsonValue

from runs.packs.command.inputs import BEFORE_TIMEBOX_SECONDS, CommandInputs
from runs.packs.command.result import CommandOutput, Ended
from runs.packs.pack import (
    MEBIBYTE,
    CommandAsked,
    CommandEnd,
    CommandResult,
    EngineUnavailable,
    Estimate,
    HoldExhausted,
    Pack,
    Price,
    Work,
)

SECOND_MICROS: Final = 100
STOP_SECONDS: Final = 1
"""For a stop where the hold is used up. One that does not get there is made up for by the init, at a deadline so much
later: none runs on at nobody's cost.
"""
EXAMPLE_ID: Final = "0198c0de-0000-7000-8000-000000000000"


def _command_pack_estimate(inputs: CommandInputs) -> Estimate:
    return Estimate(least_micros=SECOND_MICROS, most_micros=SECOND_MICROS * inputs.deadline_sec)


def _command_asked_by_inputs(inputs: dict[str, Any]) -> CommandAsked:
    read = CommandInputs.model_validate(inputs)
    return CommandAsked(
        workspace_id=read.workspace_id,
        argv=tuple(read.argv),
        stdin=read.stdin.encode(),
        deadline_seconds=read.deadline_sec,
    )


def _execute_command_pack(work: Work[CommandInputs]) -> dict[str, JsonValue]:
    work.meter.charge(SECOND_MICROS)
    paid_for = 1 + work.meter.left_micros // SECOND_MICROS
    own = min(float(work.inputs.deadline_sec), work.seconds_left() - BEFORE_TIMEBOX_SECONDS)
    seconds = min(own, paid_for + STOP_SECONDS)
    if seconds <= 0:
        raise EngineUnavailable("There was no time left to begin the command.")
    result, ran_out = asyncio.run(_followed(work, seconds))
    return {
        "ended": _how(result, ran_out=ran_out, its_own=seconds == own),
        "exit_code": result.exit_code,
        "seconds": round(result.seconds, 3),
        "stdout": result.stdout.decode("utf-8", "replace"),
        "stderr": result.stderr.decode("utf-8", "replace"),
        "stdout_cut": result.stdout_cut,
        "stderr_cut": result.stderr_cut,
    }


async def _followed(work: Work[CommandInputs], seconds: float) -> tuple[CommandResult, bool]:
    """Each second is paid before it is used; where the hold has none left, the command is stopped."""
    began, paid, ran_out = time.monotonic(), 1, False
    assert work.commands is not None  # noqa: S101  this pack runs one
    running = asyncio.ensure_future(work.commands.command(seconds=seconds))
    while not (await asyncio.wait({running}, timeout=max(0.0, began + paid - time.monotonic())))[0]:
        try:
            work.meter.charge(SECOND_MICROS)
            paid += 1
        except HoldExhausted:
            ran_out = True
            work.commands.stop_command()
            break
    return await running, ran_out


def _how(result: CommandResult, *, ran_out: bool, its_own: bool) -> Ended:
    match result.end:
        case CommandEnd.EXITED:
            return "exited"
        case CommandEnd.DEADLINE:
            return "deadline" if its_own else "hold"
        case CommandEnd.KILLED:
            return "hold" if ran_out else "killed"


def _rehearse_command_pack() -> None:
    """All but the command: a loop."""
    asyncio.run(asyncio.sleep(0))


PACK = Pack(
    name="command",
    summary="Runs a command in one of your workspaces, sold by the second.",
    inputs=CommandInputs,
    result=CommandOutput,
    prices=[Price(unit="second", micros=SECOND_MICROS, note="begun seconds; also where it exits with an error")],
    estimate=_command_pack_estimate,
    execute=_execute_command_pack,
    example={"workspace_id": EXAMPLE_ID, "argv": ["python3", "-c", "print(6 * 7)"], "deadline_sec": 30},
    memory_bytes=128 * MEBIBYTE,
    rehearsal=_rehearse_command_pack,
    command=_command_asked_by_inputs,
    least_timebox=lambda inputs: inputs.deadline_sec + BEFORE_TIMEBOX_SECONDS,
)
