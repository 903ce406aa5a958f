"""The envelope: what a run leaves in the bucket, as one JSON document of at most a megabyte (DPP-33).

What does not fit moves, whole and largest first, into a file of its own beside it; the document names each file with
its size and SHA-256. Pure: nothing here reads a clock, a table or the bucket.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from budget.money import format_usd
from runs.box.outcomes import Done, Failed
from runs.bucket import storage
from runs.intents import StoredArtifact
from runs.models import Run
from runs.packs.pack import Artifact
from runs.states import Status

SCHEMA_VERSION: Final = "0.4.2.2"
BYTES_MAX: Final = 1_000_000
PART_BYTES_MIN: Final = 1_000
"""Smaller members are not worth a file; should they still be too many, they move together."""
ENTRY_BYTES: Final = 500
"""What naming a file takes at most, beside its name twice in UTF-8: key prefix, type, size, hash."""
PART_TYPE: Final = "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One object to be written."""

    key: str
    content: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """The document, and the files it names, which must be in the bucket before it is."""

    document: StoredFile
    files: tuple[StoredFile, ...]
    artifacts: Mapping[str, StoredArtifact]
    """What the row says of the files, by name."""


def seal_envelope(
    run: Run,
    outcome: Done | Failed,
    *,
    used_micros: int,
    generated_at: datetime,
    said: Sequence[Mapping[str, Any]] = (),
) -> Envelope:
    """The envelope of a run that its worker ended. `used_micros` is what the claim will charge; `said` the last of what
    the pack told of its progress.
    """
    prefix = storage.run_prefix(tenant_id=run.tenant_id, run_id=run.run_id, created_at=run.created_at)
    document = _result_envelope_document(run, outcome, used_micros=used_micros, generated_at=generated_at)
    if said:
        document["logs"]["progress_log"] = [*said]
    files = [*outcome.artifacts] if isinstance(outcome, Done) else []
    _move_what_does_not_fit(document, files)
    document["artifacts"] = {
        file.name: _about(file, prefix) | document["artifacts"].get(file.name, {}) for file in files
    }
    return Envelope(
        document=StoredFile(
            key=prefix + storage.ENVELOPE_NAME,
            content=_encode(document),
            content_type=storage.ENVELOPE_CONTENT_TYPE,
        ),
        files=tuple(
            StoredFile(_result_envelope_file_key(file, prefix), file.content, file.content_type) for file in files
        ),
        artifacts={
            name: StoredArtifact(content_type=one["content_type"], size=one["size"], sha256=one["sha256"])
            for name, one in document["artifacts"].items()
        },
    )


def _result_envelope_document(
    run: Run, outcome: Done | Failed, *, used_micros: int, generated_at: datetime
) -> dict[str, Any]:
    done = outcome if isinstance(outcome, Done) else None
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "run_id": str(run.run_id),
        "pack_type": run.pack_type,
        "status": Status.COMPLETED.value if done else Status.FAILED.value,
        "generated_at": generated_at.isoformat().replace("+00:00", "Z"),
        "cost": {
            "reserved_usd": format_usd(run.reservation_max_cost_usd_micros),
            "used_usd": format_usd(used_micros),
            "minimum_fee_usd": format_usd(run.minimum_fee_usd_micros),
            "reserved_usd_micros": run.reservation_max_cost_usd_micros,
            "used_usd_micros": used_micros,
            "minimum_fee_usd_micros": run.minimum_fee_usd_micros,
        },
        "data": dict(done.data) if done else {},
        "artifacts": {},
        "logs": {
            "discard_log": list(done.discard_log) if done else [],
            "blocked_log": list(done.blocked_log) if done else [],
        },
        "meta": {
            "trace_id": run.trace_id,
            "profile_version": run.profile_version,
            "tokens_consumed": outcome.tokens,
            "reliability": _reliability(run, done),
        },
    }
    if isinstance(outcome, Failed):
        document["problem"] = {"reason_code": outcome.reason.value, "detail": outcome.detail}
    return document


def _reliability(run: Run, done: Done | None) -> dict[str, Any]:
    """Shown, not charged for: a pack without a score has nothing to meet the minimum with."""
    score, minimum = (done.reliability if done else None), run.sent.min_reliability_score
    return {"score": score, "minimum": minimum, "met": None if score is None else score >= minimum}


# Splitting.


def _move_what_does_not_fit(document: dict[str, Any], files: list[Artifact]) -> None:
    """Largest first until it fits, counted with the entries that will name the files."""
    while _result_envelope_size(document, files) > BYTES_MAX:
        holder, name, part = _largest(document)
        content = _encode(holder[name])
        if len(content) < PART_BYTES_MIN:
            holder, name, part = document, "data", "data"
            content = _encode(document["data"])
            if len(content) < PART_BYTES_MIN:
                raise ValueError("what cannot move is larger than an envelope")
        file = Artifact(name=_free_name(part, files), content=content, content_type=PART_TYPE)
        files.append(file)
        document["artifacts"][file.name] = {"part": part}
        holder[name] = {} if part == "data" else {"artifact": file.name} if part.startswith("data.") else []


def _result_envelope_size(document: dict[str, Any], files: Iterable[Artifact]) -> int:
    return len(_encode(document)) + sum(8 * len(file.name) + ENTRY_BYTES for file in files)


def _largest(document: Mapping[str, Any]) -> tuple[dict[str, Any], str, str]:
    """The holder and name of the largest member that may move, and what it is called."""
    members: Iterable[tuple[dict[str, Any], str, str]] = [
        *((document["data"], name, f"data.{name}") for name in document["data"]),
        *((document["logs"], name, f"logs.{name}") for name in document["logs"]),
    ]
    return max(members, key=lambda member: len(_encode(member[0][member[1]])))


def _free_name(part: str, files: Iterable[Artifact]) -> str:
    """By what it holds, where that makes a file name."""
    taken = {file.name for file in files}
    stem = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in part)[:80]
    names = (f"{stem}{'' if number == 0 else f'-{number}'}.json" for number in range(len(taken) + 1))
    return next(name for name in names if name not in taken)


def _result_envelope_file_key(file: Artifact, prefix: str) -> str:
    return storage.artifact_key(prefix, file.name)


def _about(file: Artifact, prefix: str) -> dict[str, Any]:
    return {
        "key": _result_envelope_file_key(file, prefix),
        "content_type": file.content_type,
        "size": len(file.content),
        "sha256": hashlib.sha256(file.content).hexdigest(),
    }


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
