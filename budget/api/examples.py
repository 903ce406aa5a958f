"""What the budget's addresses take and answer, shown in the OpenAPI document."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiExample

from budget.api.caps_examples import A_CAP
from dpp_project.http.openapi import answer_example

_TOP_UP: Final[dict[str, Any]] = {
    "entry_id": "7c0e4c2e-5f0a-4d0e-9b43-0f6f2c1f7a11",
    "tenant_id": "t_demo",
    "amount_usd_micros": 25_000_000,
    "amount_usd": "25.0000",
    "reference": "invoice-2026-031",
    "reason": "Invoice 2026-031",
    "created_at": "2026-03-01T12:00:00Z",
    "applied": True,
    "balance_usd_micros": 25_000_000,
}

BUDGET: Final = [
    answer_example(
        "A run under way, and one charged",
        {
            "tenant_id": "t_demo",
            "balance_usd_micros": 24_700_000,
            "balance_usd": "24.7000",
            "held_usd_micros": 250_000,
            "held_usd": "0.2500",
            "charged_usd_micros": 50_000,
            "charged_usd": "0.0500",
            "credited_usd_micros": 25_000_000,
            "credited_usd": "25.0000",
            "zone": "Europe/Berlin",
            "low_usd_micros": 10_000_000,
            "low_usd": "10.0000",
            "caps": [A_CAP],
        },
    )
]
ENTRIES: Final = [
    answer_example(
        "A charge",
        {
            "opening_usd_micros": 25_000_000,
            "closing_usd_micros": 24_950_000,
            "entries": [
                {
                    "entry_id": "0b9a2d0e-2a57-4d68-8c0b-2f1d1c7f6e52",
                    "created_at": "2026-03-01T12:00:02.418000Z",
                    "kind": "CHARGE",
                    "amount_usd_micros": -50_000,
                    "amount_usd": "-0.0500",
                    "balance_after_usd_micros": 24_950_000,
                    "run_id": "01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e",
                    "reference": None,
                    "reason": "",
                }
            ],
            "next_cursor": None,
        },
    )
]
USAGE: Final = [
    answer_example(
        "A day by pack",
        {
            "tenant_id": "t_demo",
            "zone": "Europe/Berlin",
            "from": "2026-11-01",
            "to": "2026-12-01",
            "by": "day",
            "group_by": "pack",
            "metadata_key": None,
            "begins": "2026-11-19",
            "rows": [
                {
                    "period": "2026-11-19",
                    "group": "decision",
                    "key": None,
                    "charged_usd_micros": 150_000,
                    "credited_usd_micros": 50_000,
                    "net_usd_micros": 100_000,
                    "runs": 3,
                    "tokens": 21,
                }
            ],
            "totals": {
                "charged_usd_micros": 150_000,
                "credited_usd_micros": 50_000,
                "net_usd_micros": 100_000,
                "runs": 3,
                "tokens": 21,
            },
        },
    )
]
TOP_UP: Final = [
    OpenApiExample("An invoice", value={"amount_usd": "25.0000", "reason": "Invoice 2026-031"}, request_only=True),
    answer_example("Entered", _TOP_UP, 201),
    answer_example("Entered before", _TOP_UP, 200),
]
