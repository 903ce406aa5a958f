"""How far a run at work has come, as its pack says it: a short stream in Redis, written by its worker, read by the API.

    progress:{run}    stream, KEPT entries at most, each one frame as JSON; gone LEASE_TTL_SECONDS after the last one

Nothing is decided by it: it touches no money and no state, and where Redis is slow or away it is dropped.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from redis import Redis
from redis.client import Pipeline

from dpp_project.constants import LEASE_TTL_SECONDS

KEPT: Final = 50
ENDED_SECONDS: Final = 15
"""How long the stream stays when its run is over: a reader has time for its last words."""
_FIELD: Final = "frame"
EntryId = tuple[int, int]
"""An entry's id, in the order in which they were made."""
BEGINNING: Final[EntryId] = (0, 0)


class RunProgress(BaseModel):
    """What the pack said last. Each is null where it has not said so."""

    model_config = ConfigDict(frozen=True)

    percent: Annotated[float | None, Field(ge=0, le=100, description="Of the work, as the pack counts it.")] = None
    note: Annotated[str | None, Field(max_length=500, description="What it is at.", examples=["page 3 of 12"])] = None
    cost_usd_micros: Annotated[
        int | None, Field(ge=0, description="What it has used so far; charged is what stands at the end.")
    ] = None
    line: Annotated[str | None, Field(max_length=2_000, description="Output, perhaps of several lines.")] = None
    at: AwareDatetime


def progress_key(run_id: object) -> str:
    return f"progress:{run_id}"


def queue_write(pipeline: Pipeline, run_id: str, frame: Mapping[str, Any]) -> None:
    key = progress_key(run_id)
    text = json.dumps(frame, ensure_ascii=False, separators=(",", ":"))
    pipeline.xadd(key, {_FIELD: text}, maxlen=KEPT, approximate=False)
    pipeline.expire(key, LEASE_TTL_SECONDS)


def queue_end(pipeline: Pipeline, run_id: str) -> None:
    pipeline.expire(progress_key(run_id), ENDED_SECONDS)


def queue_last(pipeline: Pipeline, run_id: object) -> None:
    """Ask for the newest entry; `last_of` reads the answer."""
    pipeline.xrevrange(progress_key(run_id), count=1)


def last_of(answer: Iterable[Any]) -> RunProgress | None:
    return next((found for _id, fields in answer if (found := _run_progress_of_fields(fields)) is not None), None)


def progress_after(client: Redis, seen: Mapping[str, EntryId]) -> Iterator[tuple[str, EntryId, RunProgress]]:
    """What was written to the streams of these runs beyond what was seen, in one request. Raises RedisError."""
    asked: Any = {progress_key(run_id): f"{ms}-{number}" for run_id, (ms, number) in seen.items()}
    answer: Any = client.xread(asked, count=KEPT)
    for key, entries in answer or ():
        for entry_id, fields in entries:
            ms, _, number = str(entry_id).partition("-")
            found = _run_progress_of_fields(fields)
            if found is not None:
                yield str(key).partition(":")[2], (int(ms), int(number)), found


def _run_progress_of_fields(fields: Mapping[str, str]) -> RunProgress | None:
    """Another release may have written it."""
    try:
        return RunProgress.model_validate_json(fields.get(_FIELD, ""))
    except ValidationError:
        return None
