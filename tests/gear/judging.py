"""The packs that judge texts, executed here without a box."""

import time
import warnings
from typing import Any

from pydantic import BaseModel, ValidationError

from runs.packs.pack import Meter, Pack, PackFailed, Work

PLENTY_MICROS = 1_000_000


def nothing_to_fetch(key: str) -> bytes:
    raise PackFailed(f"There is no upload {key}.")


def a_work(pack: Pack[Any], inputs: dict[str, Any], *, hold_micros: int, seconds: float) -> Work[Any]:
    return Work(
        run_id="a-run",
        inputs=pack.inputs.model_validate(inputs),
        artifacts_wanted={},
        deadline=time.monotonic() + seconds,
        meter=Meter(ceiling_micros=hold_micros),
        fetch_upload=nothing_to_fetch,
    )


def execute(work: Work[Any], pack: Pack[Any]) -> dict[str, Any]:
    """The test's own process has threads where a job has none; its children only compute and leave."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        return pack.execute(work)


def judge(pack: Pack[Any], inputs: dict[str, Any], *, hold_micros: int = PLENTY_MICROS, seconds: float = 60.0) -> Any:
    return execute(a_work(pack, inputs, hold_micros=hold_micros, seconds=seconds), pack)


def refusals(model: type[BaseModel], inputs: Any) -> list[tuple[tuple[int | str, ...], str]]:
    """Where the inputs are refused, and why."""
    try:
        model.model_validate(inputs)
    except ValidationError as error:
        return [(one["loc"], one["msg"]) for one in error.errors()]
    return []
