"""The tests' pack: slow, failing, crashing or hungry on request. It exists only with DPP_ENABLE_PROBE_PACK=1."""

import os
import subprocess
import time
from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from runs.packs.pack import MEBIBYTE, Estimate, Pack, PackFailed, Price, Work

MICROS_PER_USD = 1_000_000


class ProbeInputs(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sleep_ms: Annotated[int, Field(ge=0, le=600_000, description="Sleep this long.")] = 0
    cost_usd: Annotated[str, Field(pattern=r"^\d{1,6}\.\d{4}$", description="Charge this much.")] = "0.0000"
    fail: Annotated[bool, Field(description="Fail in an orderly way.")] = False
    exit: Annotated[int | None, Field(ge=0, le=255, description="Leave the process with this code.")] = None
    alloc_mb: Annotated[int, Field(ge=0, le=65_536, description="Hold this much memory.")] = 0
    # Left out while it says nothing: a worker of the release before knows no such input (docs/deploy.md).
    tell: Annotated[
        int, Field(ge=0, le=10_000, exclude_if=lambda often: often == 0, description="Say so often how far it is.")
    ] = 0
    spawn_child: Annotated[bool, Field(description="Leave a child process behind.")] = False


class ProbeAnswer(BaseModel):
    slept_ms: int
    allocated_mb: int
    child_pid: int | None


def _cost_micros(inputs: ProbeInputs) -> int:
    return int(Decimal(inputs.cost_usd) * MICROS_PER_USD)


def _probe_pack_estimate(inputs: ProbeInputs) -> Estimate:
    return Estimate(least_micros=_cost_micros(inputs), most_micros=_cost_micros(inputs))


def _execute_probe_pack(work: Work[ProbeInputs]) -> dict[str, JsonValue]:
    inputs = work.inputs
    work.meter.charge(_cost_micros(inputs))
    child = subprocess.Popen(["sleep", "600"]).pid if inputs.spawn_child else None  # noqa: S607
    held = [bytearray(MEBIBYTE) for _ in range(inputs.alloc_mb)]
    for step in range(1, inputs.tell + 1):
        time.sleep(inputs.sleep_ms / 1_000 / (inputs.tell + 1))
        work.tell(percent=100 * step / inputs.tell, note=f"step {step}", line=f"line {step}\n")
    time.sleep(inputs.sleep_ms / 1_000 / (inputs.tell + 1))
    if inputs.exit is not None:
        os._exit(inputs.exit)
    if inputs.fail:
        raise PackFailed("The probe was asked to fail.")
    return {"slept_ms": inputs.sleep_ms, "allocated_mb": len(held), "child_pid": child}


PACK = Pack(
    name="probe",
    summary="For tests: as slow, wrong, dead or hungry as its inputs say.",
    inputs=ProbeInputs,
    result=ProbeAnswer,
    prices=[Price(unit="run", micros=0, note="whatever cost_usd says")],
    estimate=_probe_pack_estimate,
    execute=_execute_probe_pack,
    example={"sleep_ms": 10, "cost_usd": "0.0100"},
    rehearsal="example",
    memory_bytes=256 * MEBIBYTE,
)
