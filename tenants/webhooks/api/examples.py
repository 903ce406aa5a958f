"""Examples of the OpenAPI document."""

from typing import Final

from drf_spectacular.utils import OpenApiExample

from dpp_project.http.openapi import answer_example

_WEBHOOK: Final = {
    "webhook_id": "5f0c1a2e-7d0b-4f3a-9c1e-2b8d6e4f1a37",
    "url": "https://example.com/webhooks/dpp",
    "events": ["run.completed", "run.failed"],
    "status": "ENABLED",
    "reason": "",
    "created_at": "2026-03-01T12:00:00Z",
    "consecutive_failures": 0,
    "failing_since": None,
    "paused_until": None,
    "last_success_at": "2026-03-01T12:05:00Z",
}
_NEW: Final = _WEBHOOK | {"last_success_at": None, "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}
_DELIVERY: Final = {
    "delivery_id": "019577d2-4e80-7c3a-9d1f-3b8d6e4f1a37",
    "webhook_id": _WEBHOOK["webhook_id"],
    "message_id": "msg_019577d24e7b7c3a9d1f2b8d6e4f1a37",
    "event": "run.completed",
    "happened_at": "2026-03-01T12:05:00Z",
    "status": "DELIVERED",
    "reason": "",
    "attempts": 2,
    "next_attempt_at": None,
    "created_at": "2026-03-01T12:05:00.1Z",
    "ended_at": "2026-03-01T12:05:05.4Z",
    "tries": [
        {"at": "2026-03-01T12:05:05.4Z", "status_code": 204, "ms": 80, "error": ""},
        {"at": "2026-03-01T12:05:00.3Z", "status_code": None, "ms": 5_001, "error": "TIMEOUT"},
    ],
}
_AGAIN: Final = _DELIVERY | {
    "status": "PENDING",
    "attempts": 0,
    "next_attempt_at": "2026-03-01T13:00:00Z",
    "ended_at": None,
}


def _webhook_request_example(name: str, value: object) -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True)


LIST: Final = [answer_example("One webhook", {"webhooks": [_WEBHOOK]})]
CREATE: Final = [
    _webhook_request_example("Ends of runs", {"url": _WEBHOOK["url"], "events": _WEBHOOK["events"]}),
    answer_example("Made", _NEW, 201),
    answer_example("Made before", _NEW | {"secret": None}, 200),
]
READ: Final = [answer_example("A webhook", _WEBHOOK)]
CHANGE: Final = [
    _webhook_request_example("Pause", {"status": "PAUSED"}),
    _webhook_request_example("Other events", {"events": ["run.refunded"]}),
    answer_example("Paused", _WEBHOOK | {"status": "PAUSED"}),
]
ROTATE: Final = [answer_example("A new secret", _NEW)]
DELIVERIES: Final = [answer_example("The last page", {"deliveries": [_DELIVERY], "next_cursor": None})]
TEST: Final = [answer_example("On its way", _AGAIN | {"event": "endpoint.test", "tries": []}, 202)]
REDELIVER: Final = [answer_example("On its way again", _AGAIN, 202)]
RECOVER: Final = [
    _webhook_request_example("What was missed since", {"since": "2026-03-01T00:00:00Z"}),
    answer_example("Enabled again", {"webhook": _WEBHOOK, "deliveries": 12}),
]
