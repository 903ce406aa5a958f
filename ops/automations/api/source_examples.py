"""What the documentation shows of the addresses of automations' sources."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiExample

from dpp_project.http.openapi import answer_example

_AT: Final = "2026-03-01T03:00:00Z"
_HOOK: Final[dict[str, Any]] = {
    "name": "issues",
    "kind": "HOOK",
    "settings": {"form": "github"},
    "has_secrets": True,
    "enabled": True,
    "looked_at": None,
    "next_look_at": _AT,
    "failures": 0,
    "last_error": "",
    "told": "",
}
_SHOWN_ONCE: Final = {"secret": "whsec_c2hvd24gb25jZSwgYW5kIG5vdCBhZ2Fpbg=="}
_UNSHOWN: Final = {"secret": None}
_PAUSED: Final = {"enabled": False}
SOURCES: Final = [answer_example("Sources", {"sources": [_HOOK]}, 200)]
SOURCE: Final = [answer_example("A source", _HOOK, 200)]
MAKE: Final = [
    OpenApiExample(
        "Signed hooks of GitHub",
        value={"name": "issues", "kind": "HOOK", "settings": {"form": "github"}},
        request_only=True,
    ),
    OpenApiExample(
        "A time of day",
        value={"name": "nightly", "kind": "SCHEDULE", "settings": {"at": "09:00", "zone": "Asia/Seoul"}},
        request_only=True,
    ),
    answer_example("Made", _HOOK | _SHOWN_ONCE, 201),
]
CHANGE: Final = [
    OpenApiExample(
        "Whose doing starts nothing",
        value={"settings": {"form": "github", "own_actors": ["our-bot"]}},
        request_only=True,
    ),
    answer_example("Changed", _HOOK | {"settings": {"form": "github", "own_actors": ["our-bot"]}} | _UNSHOWN, 200),
]
ROTATE: Final = [
    OpenApiExample("A new signing secret", value={}, request_only=True),
    answer_example("Rotated", _HOOK | _SHOWN_ONCE, 200),
]
CHANGED: Final = [answer_example("As it stands now", _HOOK | _PAUSED | _UNSHOWN, 200)]
