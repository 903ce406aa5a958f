"""What the documentation shows of the addresses of automations."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiExample

from dpp_project.http.openapi import answer_example

_RULE_ID: Final = "0199c0de-0000-7000-8000-0000000000a1"
_EVENT: Final = "0199c0de-0000-7000-8000-0000000000e1"
_TASK: Final = "0199c0de-0000-7000-8000-0000000000b1"
_MESSAGE: Final = "0199c0de-0000-7000-8000-0000000000d1"
_AT: Final = "2026-03-01T03:00:00Z"
_INPUTS: Final = {"text": {"$": "event.issue.body"}, "rules": [{"id": "no-secrets", "type": "secret"}]}

_ASKED: Final[dict[str, Any]] = {
    "name": "issues-without-secrets",
    "source": "hooks",
    "tenant": "t_demo",
    "filter": 'event.action == "opened"',
    "pack_type": "compliance",
    "inputs": _INPUTS,
    "max_cost_usd": "0.2500",
    "runs_per_hour": 20,
    "usd_per_day": "2.0000",
    "notify": {"channel": "slack", "target": "C012345"},
}
_STANDS: Final[dict[str, Any]] = _ASKED | {
    "rule_id": _RULE_ID,
    "position": 100,
    "timebox_sec": 90,
    "retries": 1,
    "thread_runs_per_hour": 5,
    "workspace_id": None,
    "context_file": None,
    "awaits_answers": False,
    "enabled": True,
    "created_by": "key:opqrstuv",
    "created_at": _AT,
    "ended_at": None,
}
NEW_RULE: Final = [OpenApiExample("Look at each new issue", value=_ASKED, request_only=True)]
CHANGE: Final = [OpenApiExample("Fewer runs", value={"runs_per_hour": 5}, request_only=True)]
RULE: Final = [answer_example("A rule", _STANDS, 200)]
RULE_MADE: Final = [answer_example("Made", _STANDS, 201)]
RULES: Final = [answer_example("Rules", {"rules": [_STANDS]}, 200)]

TRIAL: Final = [
    OpenApiExample(
        "An issue",
        value={"source": "hooks", "event": {"action": "opened", "issue": {"body": "It fails at start."}}},
        request_only=True,
    )
]
TRIALS: Final = [
    answer_example(
        "It would be bought",
        {
            "rules": [
                {
                    "rule": "issues-without-secrets",
                    "matches": True,
                    "is_chosen": True,
                    "filter_said": "true",
                    "inputs": _INPUTS | {"text": "It fails at start."},
                    "faults": [],
                    "least_usd": "0.0010",
                    "most_usd": "0.0010",
                    "ceiling_usd": "0.2500",
                }
            ]
        },
        200,
    )
]

_ONE_EVENT: Final[dict[str, Any]] = {
    "event": _EVENT,
    "event_id": "9f2c" * 16,
    "source": "hooks",
    "status": "COMPLETED",
    "outcome": "FAILED",
    "reason": "TIMEBOX_EXCEEDED",
    "waits_for": "",
    "emission": 1,
    "thread": "acme/app#7",
    "actor": "bob",
    "rule": "issues-without-secrets",
    "occurred_at": _AT,
    "seen_at": _AT,
    "dispatched_at": _AT,
    "completed_at": _AT,
}
EVENTS: Final = [answer_example("Events", {"events": [_ONE_EVENT], "next_cursor": None}, 200)]
EMITTED_AGAIN: Final = [
    answer_example(
        "Emitted again",
        _ONE_EVENT
        | {"status": "PENDING", "outcome": None, "reason": "", "emission": 2, "rule": None}
        | {"dispatched_at": None, "completed_at": None},
        201,
    )
]

_ONE_TASK: Final[dict[str, Any]] = {
    "task": _TASK,
    "number": "task-20260301-001",
    "rule": "issues-without-secrets",
    "tenant": "t_demo",
    "event": _EVENT,
    "status": "COMPLETED",
    "outcome": "SUCCEEDED",
    "reason": "",
    "waits_for": "",
    "attempts": 1,
    "attempts_max": 2,
    "max_cost_usd": "0.2500",
    "charged_usd": "0.001020",
    "thread": "acme/app#7",
    "resumes": None,
    "created_at": _AT,
    "completed_at": _AT,
    "tries": None,
    "inputs": None,
    "result": None,
}
_TRY: Final = {
    "attempt": 1,
    "status": "SUCCEEDED",
    "run_id": "0199c0de-0000-7000-8000-0000000000c1",
    "reserved_usd": "0.2500",
    "charged_usd": "0.001020",
    "reason": "",
}
_RESULT: Final = {
    "outcome": "SUCCEEDED",
    "summary": '{"verdict": "pass"}',
    "data": {"verdict": "pass"},
    "session_id": "",
    "session_log": {"logs": {"discard_log": [], "blocked_log": []}, "problem": None},
}
TASKS: Final = [answer_example("Tasks", {"tasks": [_ONE_TASK], "next_cursor": None}, 200)]
TASK: Final = [
    answer_example(
        "A task",
        _ONE_TASK | {"tries": [_TRY], "inputs": _INPUTS | {"text": "It fails at start."}, "result": _RESULT},
        200,
    )
]
MESSAGES: Final = [
    answer_example(
        "Messages",
        {
            "messages": [
                {
                    "message": _MESSAGE,
                    "number": "msg-20260301-001",
                    "kind": "RESULT",
                    "channel": "slack",
                    "target": "C012345",
                    "thread": "",
                    "body": "issues-without-secrets task-20260301-001 SUCCEEDED (1 run, 0.001020 USD)\nNothing found.",
                    "task": _TASK,
                    "rule": "issues-without-secrets",
                    "status": "SENT",
                    "attempts": 1,
                    "unclear": False,
                    "last_error": "",
                    "created_at": _AT,
                    "ended_at": _AT,
                }
            ],
            "next_cursor": None,
        },
        200,
    )
]
