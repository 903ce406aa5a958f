"""What a url run answers. What was not fetched, and why, stands in the logs of the envelope."""

from typing import Literal

from pydantic import AwareDatetime, BaseModel, Field


class UrlPage(BaseModel):
    """A URL that was answered, with whatever status."""

    url: str = Field(description="As it was asked for.")
    final_url: str = Field(description="After redirects.")
    status_code: int
    content_type: str | None
    title: str | None
    text_excerpt: str | None = Field(description="The first 8,000 characters of the main text.")
    text_characters: int | None = Field(description="Of the whole text; null where none was read.")
    notes: list[Literal["TRUNCATED", "NOT_TEXT", "TEXT_NOT_READ"]]
    fetched_at: AwareDatetime


class UrlResult(BaseModel):
    """The pages that were fetched, in the order they were asked for."""

    results: list[UrlPage]
