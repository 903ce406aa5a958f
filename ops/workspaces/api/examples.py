"""Examples of the OpenAPI document."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiExample

from dpp_project.http.openapi import answer_example

_ID: Final = "019577d2-4e80-7c3a-9d1f-3b8d6e4f1a37"
_OP: Final = "5f0c1a2e-7d0b-4f3a-9c1e-2b8d6e4f1a37"
_SPEC: Final[dict[str, Any]] = {
    "image": None,
    "env": {"STAGE": "test"},
    "command": ["python3", "-m", "http.server", "8080"],
    "ports": [8080],
    "limits": {"memory_mb": 1024, "processes": 256},
}
_SEEN: Final = {"message": "", "last_transition_time": "2026-03-01T12:00:03Z", "stale": False}
_RUNNING: Final[dict[str, Any]] = {
    "workspace_id": _ID,
    "tenant_id": "t_demo",
    "name": "build-1",
    "spec": _SPEC,
    "desired_state": "RUNNING",
    "phase": "RUNNING",
    "generation": 1,
    "standby_ttl_seconds": 3600,
    "archive_ttl_seconds": 604800,
    "created_at": "2026-03-01T12:00:00Z",
    "last_access_at": "2026-03-01T12:05:00Z",
    "delete_requested_at": None,
    "deleted_at": None,
    "observed_at": "2026-03-01T12:05:10Z",
    "observed_generation": 1,
    "conditions": {
        "infra.process.container_ready": _SEEN | {"status": True, "reason": "Running"},
        "policy.healthy": _SEEN | {"status": True, "reason": "Healthy"},
        "storage.archive_ready": _SEEN | {"status": False, "reason": "NoArchive"},
        "storage.volume_ready": _SEEN | {"status": True, "reason": "VolumeProvisioned"},
    },
    "operation": "NONE",
    "op_step": "",
    "op_attempt": 1,
    "op_started_at": "2026-03-01T12:00:02Z",
    "op_progress_bytes": 0,
    "archive_key": None,
    "error_reason": "",
    "driver_id": None,
    "next": {
        "said": "It is RUNNING, as asked for. Unused until 2026-03-01 13:05 UTC, it is asked to be STANDBY.",
        "actor": "ttl",
        "at": "2026-03-01T13:05:00Z",
    },
}
_NEW: Final = _RUNNING | {
    "phase": "PENDING",
    "last_access_at": "2026-03-01T12:00:00Z",
    "observed_at": None,
    "observed_generation": 0,
    "conditions": {},
    "op_attempt": 0,
    "op_started_at": None,
    "next": {"said": "No host has taken it yet.", "actor": "host", "at": None},
}
_RESTING: Final = _RUNNING | {
    "desired_state": "STANDBY",
    "generation": 2,
    "next": {
        "said": "It is RUNNING, and STANDBY is asked for. STOPPING comes next.",
        "actor": "reconciler",
        "at": None,
    },
}
_DELETED: Final = _RUNNING | {
    "desired_state": "DELETED",
    "generation": 3,
    "delete_requested_at": "2026-03-01T12:06:00Z",
    "next": {
        "said": "It is RUNNING, and DELETED is asked for. STOPPING comes next.",
        "actor": "reconciler",
        "at": None,
    },
}
_IN_ERROR: Final = _RUNNING | {
    "phase": "ERROR",
    "error_reason": "VolumeLost",
    "next": {"said": "Its recovery (recheck) is asked for and begins.", "actor": "reconciler", "at": None},
}
_ARCHIVE: Final = {
    "archive_key": f"{_ID}/{_OP}/home.tar.zst",
    "state": "VERIFIED",
    "epoch": 1,
    "object_bytes": 1_048_576,
    "tar_bytes": 4_194_304,
    "members": 212,
    "sha256": "9f2c" * 16,
    "created_at": "2026-03-01T14:05:00Z",
    "verified_at": "2026-03-01T14:05:02Z",
    "superseded_at": None,
}
_EVENT: Final = {
    "event_id": 42,
    "at": "2026-03-01T12:06:00Z",
    "kind": "Changed",
    "by": "owner:dpp_1a2B3c4D",
    "detail": {"desired_state": "STANDBY"},
}


def _workspace_request_example(name: str, value: object) -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True)


LIST: Final = [answer_example("The last page", {"workspaces": [_RUNNING], "next_cursor": None})]
CREATE: Final = [
    _workspace_request_example("A server", {"name": "build-1", "spec": _SPEC | {"image": None}}),
    answer_example("Made", _NEW, 201),
    answer_example("Made before", _RUNNING, 200),
]
READ: Final = [answer_example("Running", _RUNNING)]
CHANGE: Final = [
    _workspace_request_example("Put it to rest", {"desired_state": "STANDBY"}),
    answer_example("On its way", _RESTING),
]
DELETE: Final = [answer_example("On its way", _DELETED, 202)]
UNDELETE: Final = [
    _workspace_request_example("Its home alone", {"desired_state": "STANDBY"}),
    answer_example("On its way back", _RESTING | {"generation": 4}),
]
RECOVER: Final = [
    _workspace_request_example("Look again", {"from": "recheck"}),
    answer_example("Asked for", _IN_ERROR, 202),
]
ARCHIVES: Final = [answer_example("One archive", {"archives": [_ARCHIVE]})]
EVENTS: Final = [answer_example("The last page", {"events": [_EVENT], "next_cursor": None})]
_EXEC_END: Final = {
    "ended": "exited",
    "exit_code": 0,
    "seconds": 0.031,
    "stdout": "42\n",
    "stderr": "",
    "stdout_cut": False,
    "stderr_cut": False,
}
EXEC: Final = [
    _workspace_request_example("A calculation", {"argv": ["python3", "-c", "print(6 * 7)"]}),
    answer_example("Its end", _EXEC_END),
]
LOGS: Final = [
    answer_example("So far", {"content": "Serving HTTP on 0.0.0.0 port 8080\n", "next_offset": 34, "dropped": False})
]
LINK: Final = [
    _workspace_request_example("For ten minutes", {"port": 8080, "expires_sec": 600}),
    answer_example(
        "A link",
        {
            "url": f"https://{_ID}.apps.example/w/{_ID}/8080/.dpp/sign-in?token=1772367000.1a2B3c4D.{'5e' * 32}",
            "expires_at": "2026-03-01T12:10:00Z",
        },
        201,
    ),
]
