"""What the documentation shows of the addresses of auth errors."""

from datetime import date, timedelta
from typing import Any, Final

from drf_spectacular.utils import OpenApiExample

from dpp_project.http.openapi import answer_example

_ID: Final = "0199c0de-0000-7000-8000-000000000001"
_CLUSTER_ID: Final = "0199c0de-0000-7000-8000-0000000000c1"
_HASH: Final = "9f2c" * 16
_TRACE: Final = (
    "com.acme.auth.TokenExpired: token of session 7 has expired\n"
    "\tat com.acme.auth.Tokens.verify(Tokens.java:41)\n\tat com.acme.auth.Filter.doFilter(Filter.java:88)"
)
_RECORDED: Final = {"auth_error_id": _ID, "status": "NEW", "recorded_at": "2026-03-01T03:00:01Z"}

REPORT: Final = [
    OpenApiExample(
        "A token that was rejected",
        value={
            "requestId": "req-7f3a",
            "occurredAt": "2026-03-01T12:00:00+09:00",
            "httpStatus": 401,
            "exceptionClass": "com.acme.auth.TokenExpired",
            "exceptionMessage": "token of session 7 has expired",
            "stacktrace": _TRACE,
            "requestUri": "/api/orders",
            "httpMethod": "GET",
        },
        request_only=True,
    )
]
RECORDED: Final = [
    answer_example("Recorded", _RECORDED, 201),
    answer_example("Recorded before", _RECORDED | {"status": "ANALYSIS_COMPLETED"}, 200),
]

_IN_A_LIST: Final[dict[str, Any]] = {
    "auth_error_id": _ID,
    "tenant_id": "t_demo",
    "request_id": "req-7f3a",
    "status": "ANALYSIS_COMPLETED",
    "recorded_at": "2026-03-01T03:00:01Z",
    "occurred_at": "2026-03-01T03:00:00Z",
    "http_status": 401,
    "exception_class": "com.acme.auth.TokenExpired",
    "root_cause_class": None,
    "request_uri": "/api/orders",
    "http_method": "GET",
    "client_ip": None,
    "user_agent": None,
    "session_hash": None,
    "user_id": None,
    "retry_count": 0,
    "next_retry_at": None,
    "truncated": False,
    "cluster_id": _CLUSTER_ID,
    "stack_hash": _HASH,
    "exception_message": None,
    "root_cause_message": None,
    "stacktrace": None,
    "events": None,
}
_WHOLE: Final = _IN_A_LIST | {
    "exception_message": "token of session 7 has expired",
    "stacktrace": _TRACE,
    "events": [
        {
            "at": "2026-03-01T03:00:01Z",
            "what": "reported",
            "detail": "HTTP 401 com.acme.auth.TokenExpired",
            "by": "",
        },
        {"at": "2026-03-01T03:00:01.120000Z", "what": "analysed", "detail": f"cluster {_CLUSTER_ID}", "by": ""},
    ],
}
PAGE: Final = [answer_example("The last page", {"auth_errors": [_IN_A_LIST], "next_cursor": None})]
ONE: Final = [answer_example("Analysed", _WHOLE)]

_FIRST_DAY: Final = date(2026, 2, 16)
_CLUSTER: Final[dict[str, Any]] = {
    "cluster_id": _CLUSTER_ID,
    "status": "OPEN",
    "hash_version": 1,
    "stack_hash": _HASH,
    "exception_class": "com.acme.auth.TokenExpired",
    "top_frame": "com.acme.auth.Tokens.verify",
    "occurrences": 12,
    "first_seen_at": "2026-02-27T09:12:00Z",
    "last_seen_at": "2026-03-01T03:00:01Z",
    "resolved_at": None,
    "regressed_at": None,
    "newest_auth_error_id": _ID,
    "tenants": ["t_demo"],
    "trend": [
        {"day": str(_FIRST_DAY + timedelta(days=day)), "occurrences": {11: 4, 12: 0, 13: 8}.get(day, 0)}
        for day in range(14)
    ],
    "merged": [],
    "counts_as": None,
}
CLUSTERS: Final = [answer_example("The last page", {"clusters": [_CLUSTER], "next_cursor": None})]
CLUSTER: Final = [answer_example("An open cluster", _CLUSTER)]
DECISION: Final = [
    OpenApiExample("Mended", value={"decision": "RESOLVE", "reason": "Released 1.4.2"}, request_only=True)
]
CLUSTER_DECISION: Final = [
    answer_example(
        "All at once",
        {
            "cluster_id": _CLUSTER_ID,
            "decision": "RESOLVE",
            "by": "key:dpp_1a2B3c4D",
            "reason": "Released 1.4.2",
            "at": "2026-03-01T04:00:00Z",
            "decided": 12,
            "finished": True,
        },
    )
]
MERGE: Final = [
    OpenApiExample("The same fault", value={"into": "0199c0de-0000-7000-8000-0000000000c2"}, request_only=True)
]
