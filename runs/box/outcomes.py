"""How a run of a pack ended, decided from what the pack process said and how its process went."""

import enum
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import JsonValue

from dpp_project.reasons import ReasonCode
from runs.packs.pack import Artifact


@dataclass(frozen=True, kw_only=True)
class Done:
    data: dict[str, JsonValue]
    artifacts: tuple[Artifact, ...]
    spent_micros: int
    tokens: int
    discard_log: list[JsonValue] = field(default_factory=list)
    blocked_log: list[JsonValue] = field(default_factory=list)
    reliability: float | None = None


@dataclass(frozen=True, kw_only=True)
class Failed:
    """`detail` is for the tenant. What was spent until then is known, and is not what a failed run costs."""

    reason: ReasonCode
    detail: str
    spent_micros: int = 0
    tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """Ended by `stop()`: the run belongs to another actor now."""

    spent_micros: int = 0


PackOutcome = Done | Failed | Stopped


class Fault(enum.Enum):
    """Why what a pack process sent is not its answer."""

    OVERSIZED = "oversized"
    UNFIT = "unfit"
    GARBLED = "garbled"


@dataclass(kw_only=True)
class Evidence:
    """What is known of a pack process when it is over."""

    memory_bytes: int
    ceiling_micros: int
    answer: Mapping[str, Any] | None = None
    fault: Fault | None = None
    not_started: str | None = None
    code: int | None = None
    """Exit code, below zero a signal; None when its zygote could not tell."""
    why: str | None = None
    private_bytes: int = 0
    stopped: bool = False
    spent_micros: int = 0
    tokens: int = 0
    charged: bool = False
    artifacts: list[Artifact] = field(default_factory=list)


_TIME_SIGNALS: Final = {-signal.SIGALRM, -signal.SIGXCPU}
_NEARLY: Final = 0.9
_FAULTS: Final = {
    Fault.OVERSIZED: (ReasonCode.PACK_FAILED, "The result is larger than a run may answer."),
    Fault.UNFIT: (ReasonCode.PACK_FAILED, "The result holds what no document can."),
    Fault.GARBLED: (ReasonCode.PACK_CRASHED, "The pack's process wrote what is no answer."),
}
_ENDED_FOR: Final = {
    "timebox": (ReasonCode.TIMEBOX_EXCEEDED, "The pack was still working when its time ran out."),
    "memory": (ReasonCode.PACK_MEMORY_EXCEEDED, "The pack passed its memory limit."),
    "processes": (ReasonCode.PACK_CRASHED, "The pack started too many processes."),
    "disk": (ReasonCode.PACK_FAILED, "The pack wrote more files than a run may have."),
}


def decide_outcome(found: Evidence) -> PackOutcome:
    """Being stopped first, then the answer, then the end of the process: a complete answer stands whatever followed."""
    if found.stopped:
        return Stopped(spent_micros=found.spent_micros)
    if found.answer is not None and found.answer["kind"] == "done":
        return _done_box_outcome(found, found.answer)
    reason, detail = _failure(found)
    return Failed(reason=reason, detail=detail, spent_micros=found.spent_micros, tokens=found.tokens)


def _done_box_outcome(found: Evidence, answer: Mapping[str, Any]) -> PackOutcome:
    if not found.charged:
        return Failed(reason=ReasonCode.PACK_FAILED, detail="The pack reported no cost.")
    return Done(
        data=answer["data"],
        artifacts=tuple(found.artifacts),
        spent_micros=min(found.spent_micros, found.ceiling_micros),
        tokens=found.tokens,
        discard_log=answer["discard_log"],
        blocked_log=answer["blocked_log"],
        reliability=answer["reliability"],
    )


def _failure(found: Evidence) -> tuple[ReasonCode, str]:
    if found.not_started is not None:
        return ReasonCode.ENGINE_UNAVAILABLE, "No process could be started for the pack."
    if found.answer is not None:
        reason = ReasonCode(found.answer["reason"])
        return reason, found.answer["detail"] or _ENDED_FOR["memory"][1]
    if found.fault is not None:
        return _FAULTS[found.fault]
    if (ended_for := found.why or _ended_by_kernel_for(found)) in _ENDED_FOR:
        return _ENDED_FOR[ended_for]
    return ReasonCode.PACK_CRASHED, f"The pack's process ended without an answer ({_how(found.code)})."


def _ended_by_kernel_for(found: Evidence) -> str:
    if found.code in _TIME_SIGNALS:
        return "timebox"
    if found.private_bytes > _NEARLY * found.memory_bytes:
        return "memory"  # native code aborts where Python raises MemoryError
    return ""


def _how(code: int | None) -> str:
    if code is None:
        return "its guardian was killed"
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
