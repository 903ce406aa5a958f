"""Packs without a box: a Work made by hand, and what it collects."""

import time
from typing import Any

from pydantic import BaseModel, JsonValue

from runs.packs.pack import Meter, Pack, PackFailed, Work


class Said:
    """What the pack logged."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, JsonValue]]] = []

    def __call__(self, event: str, /, **values: JsonValue) -> None:
        self.events.append((event, values))

    def names(self) -> list[str]:
        return [event for event, _ in self.events]


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
        "log": Said(),
    }
    return Work(**(arguments | values))
