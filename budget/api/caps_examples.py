"""What the addresses of caps and keys take and answer, shown in the OpenAPI document."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiExample

from dpp_project.http.openapi import answer_example

A_CAP: Final[dict[str, Any]] = {
    "scope": "key",
    "period": "day",
    "window": "2026-03-01",
    "limit_usd_micros": 5_000_000,
    "used_usd_micros": 50_000,
    "held_usd_micros": 250_000,
    "left_usd_micros": 4_700_000,
    "limit_usd": "5.0000",
    "used_usd": "0.0500",
    "held_usd": "0.2500",
    "left_usd": "4.7000",
    "zone": "Europe/Berlin",
    "resets_at": "2026-03-02T00:00:00+01:00",
}
_KEY: Final[dict[str, Any]] = {
    "key_id": "5f0c1a2e-7d0b-4f3a-9c1e-2b8d6e4f1a37",
    "prefix": "dpp_1a2B3c4D",
    "lineage_id": "0b9a2d0e-2a57-4d68-8c0b-2f1d1c7f6e52",
    "label": "nightly CI",
    "scopes": ["runs:read", "runs:write"],
    "status": "ACTIVE",
    "created_at": "2026-03-01T12:00:00Z",
    "expires_at": None,
    "revoked_at": None,
    "last_used_at": "2026-03-01T12:05:00Z",
    "replaced_by": None,
}
_SPENT: Final[dict[str, Any]] = {
    "day_usd_micros": 50_000,
    "day_usd": "0.0500",
    "week_usd_micros": 50_000,
    "week_usd": "0.0500",
    "month_usd_micros": 50_000,
    "month_usd": "0.0500",
    "total_usd_micros": 1_250_000,
    "total_usd": "1.2500",
}
_LIMITS: Final[dict[str, Any]] = {
    "day_usd_micros": 5_000_000,
    "day_usd": "5.0000",
    "week_usd_micros": None,
    "week_usd": None,
    "month_usd_micros": 50_000_000,
    "month_usd": "50.0000",
    "total_usd_micros": None,
    "total_usd": None,
}
_NEW: Final[dict[str, Any]] = _KEY | {
    "last_used_at": None,
    "key": "dpp_1a2B3c4D_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG",
    "caps": _LIMITS,
    "caps_revision": 1,
    "enforced": True,
}


def _caps_request_example(name: str, value: object) -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True)


KEYS: Final = [
    answer_example(
        "An agent's key",
        {"keys": [_KEY | {"spent": _SPENT, "caps": [A_CAP], "caps_revision": 1}], "next_cursor": None},
    )
]
CREATE: Final = [
    _caps_request_example(
        "A key for an agent",
        {
            "scopes": ["runs:read", "runs:write"],
            "label": "nightly CI",
            "caps": {"day_usd": "5.0000", "month_usd": "50.0000"},
        },
    ),
    answer_example("Made", _NEW, 201),
]
ROTATE: Final = [
    _caps_request_example("In an hour", {"grace_sec": 3_600}),
    answer_example("Its successor", _NEW, 201),
]
REVOKE: Final = [answer_example("Revoked", _KEY | {"status": "REVOKED", "revoked_at": "2026-03-01T13:00:00Z"})]
CAPS: Final = [
    _caps_request_example("Five dollars a day", {"day_usd": "5.0000", "month_usd": "50.0000"}),
    _caps_request_example("No limit for the week any more", {"week_usd": None}),
    answer_example("In force", {"caps": _LIMITS, "revision": 2, "enforced": True}),
]
SETTINGS: Final = [
    _caps_request_example("Berlin's midnight", {"zone": "Europe/Berlin"}),
    _caps_request_example("Never low", {"low_usd": None}),
    answer_example("As it is now", {"zone": "Europe/Berlin", "low_usd_micros": 10_000_000, "low_usd": "10.0000"}),
]
