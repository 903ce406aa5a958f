"""`POST /v1/runs/estimate`: what a run of these inputs would cost, before any money is held."""

from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Final, Literal

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample, extend_schema
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel, create_model
from rest_framework.request import Request

from budget.money import MICROS_PER_STEP, format_usd, minimum_fee_micros
from dpp_project.http import bodies
from dpp_project.http.bodies import validated_body
from dpp_project.http.openapi import answer_example, cost_headers
from runs.api.metering import MeteredView
from runs.packs import registry
from runs.submit import request_body, request_hash
from tenants.rate_limits import Bucket
from tenants.scopes import Scope


class EstimateRequest(BaseModel):
    """A pack and its inputs, as a run would carry them."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    pack_type: Annotated[str, AfterValidator(request_body.known_pack)]
    inputs: Any


class PriceEstimate(BaseModel):
    """US dollars with four decimals, rounded up: what is held must suffice. The micros beside them are exact."""

    model_config = ConfigDict(frozen=True)

    pack_type: str = Field(examples=["decision"])
    least_usd: str = Field(examples=["0.0100"], description="What a completed run of these inputs costs at least.")
    most_usd: str = Field(examples=["0.0500"], description="What it costs at most.")
    smallest_hold_usd: str = Field(
        examples=["0.0500"], description="The smallest `max_cost_usd` that is never too small for these inputs."
    )
    minimum_fee_usd: str = Field(
        examples=["0.0050"], description="What a run with that hold costs if it fails at work."
    )
    least_usd_micros: int = Field(examples=[10_000])
    most_usd_micros: int = Field(examples=[50_000])
    smallest_hold_usd_micros: int = Field(examples=[50_000])
    minimum_fee_usd_micros: int = Field(examples=[5_000])


@cache
def _model_for(pack_name: str) -> type[EstimateRequest]:
    pack = registry.pack_named(pack_name)
    fields: dict[str, Any] = {
        "pack_type": (Literal[pack_name], ...),
        "inputs": (pack.inputs, Field(description=pack.summary, examples=[dict(pack.example)])),
    }
    title = "".join(part.capitalize() for part in pack_name.split("_"))
    return create_model(f"{title}Estimate", __base__=EstimateRequest, **fields)


def _any_request() -> type[BaseModel]:
    """One of the packs' requests, told apart by `pack_type`."""
    models: list[Any] = [_model_for(name) for name in registry.packs_for_sale()]
    if len(models) < 2:
        return models[0] if models else EstimateRequest
    union: Any = Annotated[reduce(or_, models), Field(discriminator="pack_type")]
    root: Any = RootModel
    return type("EstimateSubmission", (root[union],), {"__doc__": EstimateRequest.__doc__})


def _validated_estimate_request(body: Any) -> EstimateRequest:
    name = body.get("pack_type") if isinstance(body, dict) else None
    is_known = isinstance(name, str) and name in registry.packs_for_sale()
    return validated_body(_model_for(str(name)) if is_known else EstimateRequest, body)


def estimate_price(pack_type: str, inputs: BaseModel) -> PriceEstimate:
    """The fee is that of the smallest hold; a larger one may cost more on failure."""
    found = registry.pack_named(pack_type).estimate(inputs)
    hold = max(MICROS_PER_STEP, _rounded_up(found.most_micros))
    fee = min(hold, minimum_fee_micros(hold))
    return PriceEstimate(
        pack_type=pack_type,
        least_usd=format_usd(_rounded_up(found.least_micros)),
        most_usd=format_usd(_rounded_up(found.most_micros)),
        smallest_hold_usd=format_usd(hold),
        minimum_fee_usd=format_usd(fee),
        least_usd_micros=found.least_micros,
        most_usd_micros=found.most_micros,
        smallest_hold_usd_micros=hold,
        minimum_fee_usd_micros=fee,
    )


def _rounded_up(micros: int) -> int:
    return -(-micros // MICROS_PER_STEP) * MICROS_PER_STEP


class EstimateView(MeteredView):
    required_scopes: Final = {"POST": frozenset({Scope.RUNS_READ, Scope.RUNS_WRITE})}
    rate_bucket: Final = Bucket.POLL

    @extend_schema(
        operation_id="estimateRun",
        summary="Estimate a run's price",
        tags=["Runs"],
        request={"application/json": _any_request()},
        parameters=cost_headers(),
        responses={200: PriceEstimate},
        examples=[
            *(
                OpenApiExample(name, value={"pack_type": name, "inputs": dict(pack.example)}, request_only=True)
                for name, pack in registry.packs_for_sale().items()
            ),
            answer_example(
                "A price",
                {
                    "pack_type": "decision",
                    "least_usd": "0.0500",
                    "most_usd": "0.0500",
                    "smallest_hold_usd": "0.0500",
                    "minimum_fee_usd": "0.0050",
                    "least_usd_micros": 50_000,
                    "most_usd_micros": 50_000,
                    "smallest_hold_usd_micros": 50_000,
                    "minimum_fee_usd_micros": 5_000,
                },
            ),
        ],
    )
    def post(self, request: Request) -> HttpResponse:
        """What a run of these inputs would cost, and the smallest hold that suffices. Holds nothing, stores nothing."""
        asked = _validated_estimate_request(bodies.read_json_document(request))
        request_hash.checked_inputs(asked.inputs.model_dump(mode="json"))
        body = estimate_price(asked.pack_type, asked.inputs)
        return HttpResponse(body.model_dump_json(), content_type="application/json")
