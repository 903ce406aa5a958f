"""Packs without a box: a Work made by hand, its execution in this process, and what is refused before it."""

import json
import os
import time
import warnings
from typing import Any

from pydantic import BaseModel, JsonValue, ValidationError

from runs.packs.pack import Meter, Pack, PackFailed, Work
from tests.gear.servers.web import Outside


class PackLog:
    """What a pack has logged."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, JsonValue]]] = []

    def __call__(self, event: str, /, **values: JsonValue) -> None:
        self.events.append((event, values))

    def names(self) -> list[str]:
        return [event for event, _ in self.events]

    def values(self, event: str) -> dict[str, Any]:
        """Of the first line of this event; nothing where there is none."""
        return next((dict(values) for logged, values in self.events if logged == event), {})


def no_upload(key: str) -> bytes:
    raise PackFailed(f"There is no upload {key}.")


def work_for(
    pack: Pack[Any], inputs: dict[str, Any], *, hold_micros: int = 1_000_000, seconds: float = 30.0, **values: Any
) -> Work[Any]:
    """A run of this pack, with inputs as the API would have normalised them."""
    read: BaseModel = pack.inputs.model_validate(inputs)
    arguments: dict[str, Any] = {
        "run_id": "a-run",
        "inputs": read,
        "artifacts_wanted": {},
        "deadline": time.monotonic() + seconds,
        "meter": Meter(ceiling_micros=hold_micros),
        "fetch_upload": no_upload,
        "outbound": Outside(reach=pack.reach(os.environ)),
        "log": PackLog(),
    }
    return Work(**(arguments | values))


def fitting(pack: Pack[Any], data: Any) -> Any:
    """The data, which fit what the pack declares of its result: nothing missing, nothing more, nothing else."""
    if pack.result is not None:
        pack.result.model_validate_json(
            json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"), strict=True, extra="forbid"
        )
    return data


def execute(work: Work[Any], pack: Pack[Any]) -> dict[str, Any]:
    """The test's own process has threads where a job has none; its children only compute and leave."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        data: dict[str, Any] = fitting(pack, pack.execute(work))
        return data


def judge(pack: Pack[Any], inputs: dict[str, Any], *, hold_micros: int = 1_000_000, seconds: float = 60.0) -> Any:
    return execute(work_for(pack, inputs, hold_micros=hold_micros, seconds=seconds), pack)


def refusals(model: type[BaseModel], inputs: Any) -> list[tuple[tuple[int | str, ...], str]]:
    """Where the inputs are refused, and why."""
    try:
        model.model_validate(inputs)
    except ValidationError as error:
        return [(one["loc"], one["msg"]) for one in error.errors()]
    return []
