"""The body of `POST /v1/runs` (DPP-02): one compiled model for each pack, so that one pass checks the whole request.

These models are the validation and the OpenAPI document at once. What passes here is normalised: every default is
filled in, so that two requests that mean the same are the same.
"""

from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, create_model
from pydantic_core import PydanticCustomError

from budget.money import USD_PATTERN, AmountInvalid, parse_usd
from dpp_project.constants import TIMEBOX_SECONDS_DEFAULT, TIMEBOX_SECONDS_MAX
from dpp_project.http.bodies import validated_body
from dpp_project.http.problems import FieldError, Problem
from dpp_project.reasons import ReasonCode
from runs.metadata import (
    CONCURRENCY_KEY,
    METADATA_KEY,
    METADATA_KEYS_MAX,
    METADATA_VALUE_LENGTH_MAX,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
)
from runs.packs import registry

PROFILE_VERSION_DEFAULT: Final = "PROFILE_DPP_0_4_2_2"


def _amount(text: str) -> str:
    try:
        parse_usd(text)
    except AmountInvalid as refused:
        raise PydanticCustomError("amount", "{why}", {"why": str(refused)}) from None
    return text


def known_pack(name: str) -> str:
    if name not in registry.packs_for_sale():
        raise PydanticCustomError(
            "pack", "unknown pack; choose of: {names}", {"names": ", ".join(registry.packs_for_sale())}
        )
    return name


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Reservation(_Part):
    """What the run may cost and how long it may take."""

    max_cost_usd: Annotated[
        str,
        AfterValidator(_amount),
        Field(
            json_schema_extra={"pattern": USD_PATTERN},
            description="The price ceiling, held at once: US dollars with exactly four decimals, above zero.",
            examples=["0.2500"],
        ),
    ]
    timebox_sec: Annotated[int, Field(ge=1, le=TIMEBOX_SECONDS_MAX, description="The pack is killed after this.")] = (
        TIMEBOX_SECONDS_DEFAULT
    )
    min_reliability_score: Annotated[
        float, Field(ge=0, le=1, description="Shown beside the score the pack gives itself; it touches no money.")
    ] = 0.8

    @property
    def max_cost_micros(self) -> int:
        return parse_usd(self.max_cost_usd)


class Options(_Part):
    inline: Annotated[
        int, Field(ge=0, le=1, description="1: the finished run's data stand in its own body, up to 256 KB.")
    ] = 0
    concurrency_key: Annotated[
        str | None,
        Field(
            pattern=CONCURRENCY_KEY,
            description="Of your runs with the same key one is at work at a time, or as many as "
            "`PUT /v1/concurrency/{key}` allows; the others wait, first come first.",
        ),
    ] = None
    priority: Annotated[
        int,
        Field(
            ge=0,
            le=PRIORITY_MAX,
            description="Among your own runs that wait: 9 is first. Against other customers' it changes nothing.",
        ),
    ] = PRIORITY_DEFAULT


class Meta(_Part):
    trace_id: Annotated[
        str | None,
        Field(max_length=256, description="Used where no X-Trace-Id is sent; only `A-Za-z0-9._:-` of it are kept."),
    ] = None
    profile_version: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = PROFILE_VERSION_DEFAULT


RunWords = Annotated[
    dict[
        Annotated[str, Field(pattern=METADATA_KEY)],
        Annotated[str, Field(min_length=1, max_length=METADATA_VALUE_LENGTH_MAX)],
    ],
    Field(
        max_length=METADATA_KEYS_MAX,
        description="Your own words for the run: to find it by (`metadata[key]=value`) and to tell usage by. Not "
        "hashed: a replay keeps the first. It stays with the run's cost for a year after the retention, so keep "
        "personal data out of it; `DELETE /v1/runs/{run_id}/data` deletes it.",
        examples=[{"project": "apollo", "customer": "4711"}],
    ),
]


class RunCreateRequest(_Part):
    """One run: what to do, with what, for how much at most."""

    pack_type: Annotated[str, AfterValidator(known_pack)]
    inputs: Any
    reservation: Reservation
    options: Options = Options()
    meta: Meta = Meta()
    metadata: RunWords = {}
    client: Annotated[
        dict[str, JsonValue], Field(description="What the caller wishes to say of itself; neither kept nor hashed.")
    ] = {}

    def normalised_inputs(self) -> dict[str, Any]:
        inputs: BaseModel = self.inputs
        return inputs.model_dump(mode="json")

    def normalised_artifacts(self) -> dict[str, bool] | None:
        """Every artifact this pack can make, wanted or not; None where it makes none."""
        wanted: BaseModel | None = getattr(self, "artifacts", None)
        return None if wanted is None else wanted.model_dump()


@cache
def model_for(pack_name: str) -> type[RunCreateRequest]:
    """The request as this pack reads it: its own inputs, and `artifacts` only where it makes any."""
    pack = registry.pack_named(pack_name)
    fields: dict[str, Any] = {
        "pack_type": (Literal[pack_name], ...),
        "inputs": (pack.inputs, Field(description=pack.summary, examples=[dict(pack.example)])),
    }
    title = "".join(part.capitalize() for part in pack_name.split("_"))
    if pack.artifacts:
        wanted: Any = dict.fromkeys(pack.artifacts, (bool, False))
        artifacts = create_model(f"{title}Artifacts", __base__=_Part, **wanted)
        fields["artifacts"] = (artifacts, artifacts())
    return create_model(f"{title}Run", __base__=RunCreateRequest, **fields)


def read_run_request(body: Any) -> RunCreateRequest:
    """The body as a request that could be carried out, or a Problem that names each wrong field."""
    name = body.get("pack_type") if isinstance(body, dict) else None
    is_known = isinstance(name, str) and name in registry.packs_for_sale()
    read = validated_body(model_for(str(name)) if is_known else RunCreateRequest, body)
    least = registry.pack_named(read.pack_type).least_timebox(read.inputs)
    if read.reservation.timebox_sec < least:
        said = FieldError("reservation.timebox_sec", f"must be at least {least} for these inputs")
        raise Problem(ReasonCode.VALIDATION_FAILED, "The request has wrong fields; see errors.", errors=[said])
    return read
