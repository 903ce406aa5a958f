"""Query strings of the runs' addresses."""

from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from dpp_project.http.cursors import CursorParameter
from runs.reads.listing import Filters
from runs.states import Status


class RunsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=100, description="Runs on a page.")] = 50
    cursor: CursorParameter = None
    status: Annotated[Status | None, Field(description="EXPIRED: past their retention.")] = None
    pack_type: Annotated[str | None, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")] = None
    created_from: Annotated[AwareDatetime | None, Field(description="Accepted then or later.")] = None
    created_to: Annotated[AwareDatetime | None, Field(description="Accepted before.")] = None

    def filters(self) -> Filters:
        return Filters(
            status=self.status,
            pack_type=self.pack_type,
            created_from=self.created_from,
            created_to=self.created_to,
        )
