"""The requests and answers as JSON, and the seal over a request."""

import base64
import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from dpp_project import seals
from ops.workspaces.drivers.base import (
    DriverCorrupt,
    DriverError,
    DriverNoSpace,
    DriverRefused,
    DriverUnavailable,
    ExecEnd,
    ExecRequest,
    ExecResult,
    LogPage,
)

SEAL_HEADER: Final = "dpp-seal"
TIME_HEADER: Final = "dpp-time"
BODY_HEADER: Final = "dpp-body"
"""The SHA-256 of the body: with the head the body is sealed too."""
SEAL_SECONDS: Final = 60.0
"""A request is believed for so long on either side of its time. Repeated within it, an exec is refused by its id."""
BODY_BYTES_MAX: Final = 4 * 1_048_576
ANSWER_BYTES_MAX: Final = 4 * 1_048_576
_PURPOSE: Final = b"dpp workspace request 2"
_KINDS: Final[dict[str, type[DriverError]]] = {
    "unavailable": DriverUnavailable,
    "refused": DriverRefused,
    "corrupt": DriverCorrupt,
    "no space": DriverNoSpace,
}


def sealed_headers(path: str, body: bytes) -> list[tuple[str, str]]:
    at, digest = f"{time.time():.3f}", _digest(body)
    return [
        (TIME_HEADER, at),
        (BODY_HEADER, digest),
        (SEAL_HEADER, seals.seal_content(_PURPOSE, _sealed(path, at, digest))),
    ]


def is_ours(path: str, headers: Mapping[str, str]) -> bool:
    """By its head alone: of a stranger no body is read."""
    at = headers.get(TIME_HEADER, "")
    try:
        is_fresh = abs(time.time() - float(at)) <= SEAL_SECONDS
    except ValueError:
        return False
    sealed = _sealed(path, at, headers.get(BODY_HEADER, ""))
    return is_fresh and seals.seal_holds(headers.get(SEAL_HEADER, ""), _PURPOSE, sealed)


def is_whole(headers: Mapping[str, str], body: bytes) -> bool:
    """Whether this is the body that the head was sealed for."""
    return headers.get(BODY_HEADER, "") == _digest(body)


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _sealed(path: str, at: str, digest: str) -> bytes:
    return json.dumps([path, at, digest]).encode()


def exec_document(workspace_id: str, request: ExecRequest, *, tenant_id: str) -> dict[str, Any]:
    return {
        "tenant_id": tenant_id,
        "workspace_id": workspace_id,
        "exec_id": request.exec_id,
        "argv": list(request.argv),
        "stdin": _remote_base64_text(request.stdin),
        "environment": dict(request.environment),
        "working_directory": request.working_directory,
        "deadline_seconds": request.deadline_seconds,
        "output_bytes_max": request.output_bytes_max,
    }


def exec_request(said: Mapping[str, Any]) -> ExecRequest:
    return ExecRequest(
        exec_id=said["exec_id"],
        argv=tuple(said["argv"]),
        stdin=_bytes(said["stdin"]),
        environment=said["environment"],
        working_directory=said["working_directory"],
        deadline_seconds=said["deadline_seconds"],
        output_bytes_max=said["output_bytes_max"],
    )


def result_document(result: ExecResult) -> dict[str, Any]:
    return {
        "end": result.end.value,
        "exit_code": result.exit_code,
        "stdout": _remote_base64_text(result.stdout),
        "stderr": _remote_base64_text(result.stderr),
        "stdout_cut": result.stdout_cut,
        "stderr_cut": result.stderr_cut,
        "seconds": result.seconds,
    }


def exec_result(said: Mapping[str, Any]) -> ExecResult:
    return ExecResult(
        end=ExecEnd(said["end"]),
        exit_code=said["exit_code"],
        stdout=_bytes(said["stdout"]),
        stderr=_bytes(said["stderr"]),
        stdout_cut=said["stdout_cut"],
        stderr_cut=said["stderr_cut"],
        seconds=said["seconds"],
    )


def page_document(page: LogPage) -> dict[str, Any]:
    return {"content": _remote_base64_text(page.content), "next_offset": page.next_offset, "dropped": page.dropped}


def log_page(said: Mapping[str, Any]) -> LogPage:
    return LogPage(content=_bytes(said["content"]), next_offset=said["next_offset"], dropped=said["dropped"])


def file_document(workspace_id: str, path: str, content: bytes) -> dict[str, Any]:
    return {"workspace_id": workspace_id, "path": path, "content": _remote_base64_text(content)}


def file_content(said: Mapping[str, Any]) -> tuple[str, bytes]:
    """Its path under the home, and what is to stand there."""
    path = said["path"]
    if not isinstance(path, str) or not path or path.startswith("/") or {"", ".", ".."} & set(path.split("/")):
        raise ValueError("not a path under the home")
    return path, _bytes(said["content"])


def error_document(error: DriverError) -> dict[str, Any]:
    kind = next((name for name, one in _KINDS.items() if isinstance(error, one)), "unavailable")
    return {"error": {"kind": kind, "reason": error.reason, "message": str(error)}}


def error_of(said: Mapping[str, Any]) -> DriverError:
    error = said["error"]
    return _KINDS[error["kind"]](error["message"], reason=error["reason"])


def _remote_base64_text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
