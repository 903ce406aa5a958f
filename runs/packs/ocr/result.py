"""What an ocr run answers. Its artifacts hold the same text as Markdown or Word."""

from typing import Literal

from pydantic import BaseModel, Field

from runs.packs.ocr.profiles import ProfileName


class OcrBlock(BaseModel):
    """A paragraph, or ink that no word was read from."""

    text: str = Field(description="`(?)` follows a word that stayed doubtful; `[□]` stands for what was not read.")
    confidence: float = Field(ge=0, le=1)
    kind: Literal["title", "body", "fine", "unread"]
    box: list[int] = Field(
        min_length=4, max_length=4, description="Left, top, width, height in pixels of the page as it was read."
    )


class OcrPage(BaseModel):
    """A page that was read."""

    source: str = Field(description="The key of its upload.")
    page: int = Field(ge=1)
    width: int
    height: int
    rotated_degrees: int = Field(description="Counterclockwise, before it was read.")
    deskewed_degrees: float
    mended: list[str] = Field(description="What was taken away before it was read, such as shadow.")
    complete: bool = Field(description="False where its time ran out.")
    blocks: list[OcrBlock]


class OcrNote(BaseModel):
    """What was not read, or is to be looked at."""

    type: Literal[
        "VERIFY_SPELLING",
        "UNREAD_INK",
        "BLANK_PAGE",
        "PAGE_INCOMPLETE",
        "NOT_READ",
        "MAX_PAGES",
        "HOLD_EXHAUSTED",
        "TIME_EXHAUSTED",
    ]
    value: str
    source: str
    page: int | None


class OcrResult(BaseModel):
    """The text of the pages that were read, and notes on the others."""

    texts: list[OcrPage]
    notes: list[OcrNote]
    pages_read: int
    ocr_profile: ProfileName
