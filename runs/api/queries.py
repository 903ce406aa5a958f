"""Query strings of the runs' addresses."""

import re
from typing import Annotated, Any, Final

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from dpp_project.http.cursors import CursorParameter
from runs.metadata import METADATA_FILTERS_MAX, METADATA_KEY, METADATA_VALUE_LENGTH_MAX
from runs.reads.listing import Filters
from runs.states import Status

_NAMED: Final = re.compile(r"metadata\[(.*)\]", re.DOTALL)


def _written_as_one(query: Any) -> Any:
    """`metadata[a]=1` and `metadata[b]=2` as the one member they stand for."""
    if not isinstance(query, dict):
        return query
    named = {found[1]: value for name, value in query.items() if (found := _NAMED.fullmatch(name))}
    rest = {name: value for name, value in query.items() if _NAMED.fullmatch(name) is None}
    return rest | {"metadata": named} if named and "metadata" not in rest else rest


def _of_names(metadata: Any) -> Any:
    if isinstance(metadata, str):
        raise PydanticCustomError("metadata", "send `metadata[key]=value`")
    return metadata


class RunsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=100, description="Runs on a page.")] = 50
    cursor: CursorParameter = None
    status: Annotated[Status | None, Field(description="EXPIRED: past their retention.")] = None
    pack_type: Annotated[str | None, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")] = None
    created_from: Annotated[AwareDatetime | None, Field(description="Accepted then or later.")] = None
    created_to: Annotated[AwareDatetime | None, Field(description="Accepted before.")] = None
    metadata: Annotated[
        dict[Annotated[str, Field(pattern=METADATA_KEY)], Annotated[str, Field(max_length=METADATA_VALUE_LENGTH_MAX)]],
        BeforeValidator(_of_names),
        Field(
            max_length=METADATA_FILTERS_MAX,
            description="`metadata[project]=apollo`: runs that were submitted with it; of several, with all of them.",
        ),
    ] = {}

    @model_validator(mode="before")
    @classmethod
    def _with_metadata(cls, query: Any) -> Any:
        return _written_as_one(query)

    def filters(self) -> Filters:
        return Filters(
            status=self.status,
            pack_type=self.pack_type,
            created_from=self.created_from,
            created_to=self.created_to,
            metadata=self.metadata,
        )
