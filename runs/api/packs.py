"""`GET /v1/packs`: what is for sale, what each pack reads, and what it costs."""

from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from rest_framework.request import Request

from budget.money import FAILURE_FEE_RULE
from dpp_project.constants import MINIMUM_FEE_CAP_MICROS, MINIMUM_FEE_FLOOR_MICROS, MINIMUM_FEE_PERCENT
from dpp_project.http.openapi import answer_example, cost_headers
from runs.api.metering import MeteredView
from runs.packs import registry
from runs.packs.pack import Pack
from tenants.permissions import ANY_KEY
from tenants.rate_limits import Bucket


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class PriceLine(_Part):
    unit: str = Field(examples=["page"])
    usd_micros: int = Field(examples=[2_000], description="Millionths of a US dollar for each unit.")
    note: str


class PackDescription(_Part):
    """One kind of work: what it reads, what it costs, and inputs that work."""

    pack_type: str = Field(examples=["decision"])
    summary: str
    inputs_schema: dict[str, JsonValue] = Field(description="JSON Schema of `inputs`.")
    result_schema: dict[str, JsonValue] | None = Field(
        description="JSON Schema of the result's `data`; null of a pack from outside that declares none."
    )
    artifacts: list[str] = Field(description="Optional artifacts that a request may ask for.")
    prices: list[PriceLine]
    price_version: str = Field(
        examples=["1"], description="Of the price list. A run is charged by the one it was accepted under."
    )
    example: dict[str, JsonValue]
    missing: list[str] = Field(description="What must be installed before this pack can work; empty: ready.")


class FailureFeeRule(_Part):
    """What a run costs that fails at work; one that never started costs nothing."""

    rule: str = Field(examples=[FAILURE_FEE_RULE])
    percent_of_hold: int = Field(examples=[MINIMUM_FEE_PERCENT])
    least_usd_micros: int = Field(examples=[MINIMUM_FEE_FLOOR_MICROS])
    most_usd_micros: int = Field(examples=[MINIMUM_FEE_CAP_MICROS])


_FAILURE_FEE: Final = FailureFeeRule(
    rule=FAILURE_FEE_RULE,
    percent_of_hold=MINIMUM_FEE_PERCENT,
    least_usd_micros=MINIMUM_FEE_FLOOR_MICROS,
    most_usd_micros=MINIMUM_FEE_CAP_MICROS,
)


class PackList(_Part):
    packs: list[PackDescription]
    failure_fee: FailureFeeRule


class PacksView(MeteredView):
    required_scopes: Final = ANY_KEY
    rate_bucket: Final = Bucket.POLL

    @extend_schema(
        operation_id="listPacks",
        summary="What is for sale",
        tags=["Packs"],
        parameters=cost_headers(),
        responses={200: PackList},
        examples=[
            answer_example(
                "One pack",
                {
                    "packs": [
                        {
                            "pack_type": "decision",
                            "summary": "Answers a question from a given context.",
                            "inputs_schema": {"type": "object", "properties": {"question": {"type": "string"}}},
                            "result_schema": {"type": "object", "properties": {"answer_text": {"type": "string"}}},
                            "artifacts": [],
                            "prices": [{"unit": "run", "usd_micros": 50_000, "note": ""}],
                            "price_version": "1",
                            "example": {"question": "May the invoice be paid?"},
                            "missing": [],
                        }
                    ],
                    "failure_fee": _FAILURE_FEE.model_dump(),
                },
            )
        ],
    )
    def get(self, request: Request) -> HttpResponse:
        """Every pack with the schema of its inputs, its price list and an example."""
        del request
        body = PackList(
            packs=[_described(pack) for pack in registry.packs_for_sale().values()], failure_fee=_FAILURE_FEE
        )
        return HttpResponse(body.model_dump_json(), content_type="application/json")


def _described(pack: Pack[Any]) -> PackDescription:
    return PackDescription(
        pack_type=pack.name,
        summary=pack.summary,
        inputs_schema=pack.inputs.model_json_schema(),
        result_schema=None if pack.result is None else pack.result.model_json_schema(mode="serialization"),
        artifacts=list(pack.artifacts),
        prices=[PriceLine(unit=price.unit, usd_micros=price.micros, note=price.note) for price in pack.prices],
        price_version=pack.price_version,
        example=dict(pack.example),
        missing=list(pack.missing()),
    )
