"""The inputs of a url run. The caller may tighten its rules, never loosen them."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from dpp_project.outbound.locations import URL_CHARACTERS_MAX
from runs.packs.pack import CONNECTIONS_AT_ONCE_MAX as PARALLEL_MAX
from runs.packs.url.fetching import REDIRECTS_MAX

FETCH_SECONDS_MAX: Final = 10


def _no_wider(largest: int, unit: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        if isinstance(value, int) and value > largest:
            said = f"may be made smaller, not larger than {largest} {unit}"
            raise PydanticCustomError("rule_loosened", "{said}", {"said": said})
        return value

    return BeforeValidator(check)


def _stays(rule: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        if value is not True:
            raise PydanticCustomError("rule_loosened", "{said}", {"said": f"is always true: {rule}"})
        return value

    return BeforeValidator(check)


class UrlInputs(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    urls: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=URL_CHARACTERS_MAX, json_schema_extra={"format": "uri"})]],
        Field(min_length=1, max_length=PARALLEL_MAX, description="What to fetch; each once, all side by side."),
    ]
    max_urls: Annotated[
        int,
        _no_wider(PARALLEL_MAX, "URLs"),
        Field(ge=1, le=PARALLEL_MAX, description="Fetch no more than this many; the rest is logged as MAX_URLS."),
    ] = PARALLEL_MAX
    fetch_timeout_sec: Annotated[
        int,
        _no_wider(FETCH_SECONDS_MAX, "seconds"),
        Field(ge=1, le=FETCH_SECONDS_MAX, description="The time of one URL, redirects and body included."),
    ] = FETCH_SECONDS_MAX
    max_redirect_hops: Annotated[
        int,
        _no_wider(REDIRECTS_MAX, "redirects"),
        Field(ge=0, le=REDIRECTS_MAX, description="Follow no more redirects than this."),
    ] = REDIRECTS_MAX
    block_private_ip: Annotated[
        bool,
        _stays("private addresses are never fetched"),
        Field(json_schema_extra={"const": True}, description="Always true; may be said, not changed."),
    ] = True
    allow_https_only: Annotated[
        bool,
        _stays("only https is fetched"),
        Field(json_schema_extra={"const": True}, description="Always true; may be said, not changed."),
    ] = True
