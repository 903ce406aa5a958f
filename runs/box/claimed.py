"""What a pack process says of itself, taken for what it is worth: its side's own checks may have been passed by."""

from collections.abc import Mapping
from typing import Any, Final

from runs.box import wire
from runs.packs.pack import Artifact, is_content_type, is_file_name

AMOUNT_MAX: Final = 2**53
DETAIL_LENGTH_MAX: Final = 1_000
REASONS: Final = frozenset({"PACK_FAILED", "PACK_CRASHED", "PACK_MEMORY_EXCEEDED", "ENGINE_UNAVAILABLE"})
"""That it may give for its own end."""


def claimed_cost(said: Mapping[str, Any]) -> tuple[int, int]:
    """Micros and tokens."""
    return _amount(said["spent_micros"]), _amount(said["tokens"])


def claimed_artifact(said: Mapping[str, Any], content: bytes) -> Artifact:
    """By the rules of Work.add_artifact."""
    _require(said, name=str, content_type=str)
    if not is_file_name(said["name"]):
        raise wire.Garbled
    if not is_content_type(said["content_type"]):
        raise wire.Unfit
    return Artifact(name=said["name"], content=content, content_type=said["content_type"])


def claimed_progress(said: Mapping[str, Any]) -> dict[str, Any]:
    """The members that it says; a text is cut to its length."""
    found: dict[str, Any] = {}
    if (percent := said.get("percent")) is not None:
        if isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 <= percent <= 100:
            raise wire.Garbled
        found["percent"] = percent
    for name, most in (("note", wire.PROGRESS_NOTE_MAX), ("line", wire.PROGRESS_LINE_MAX)):
        if (text := said.get(name)) is not None:
            if not isinstance(text, str):
                raise wire.Garbled
            found[name] = _without_controls(text[-most:])
    return found


def claimed_answer(said: Mapping[str, Any]) -> dict[str, Any]:
    """`done` or `failed`."""
    if said["kind"] == "done":
        _require(said, data=dict, discard_log=list, blocked_log=list)
        if not _is_score(said["reliability"]):
            raise wire.Unfit
        return dict(said)
    _require(said, reason=str, detail=str)
    if said["reason"] not in REASONS:
        raise wire.Garbled
    return {**said, "detail": _printable_claimed_detail(said["detail"])}


def _amount(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= AMOUNT_MAX:
        raise wire.Garbled
    return value


def _is_score(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1)


def _printable_claimed_detail(text: str) -> str:
    """Postgres takes no NUL, and no log a line of a stranger's."""
    return "".join(one if one.isprintable() else " " for one in text[:DETAIL_LENGTH_MAX])


def _without_controls(text: str) -> str:
    """Line ends and tabs stay; what steers a terminal, and half a character, does not."""
    plain = "".join(one if one.isprintable() or one in "\n\t" else " " for one in text)
    return plain.encode("utf-8", "replace").decode()


def _require(said: Mapping[str, Any], **types: type) -> None:
    if not all(isinstance(said[name], kind) for name, kind in types.items()):
        raise wire.Garbled
