"""The ocr profiles: how much work a page gets. The specification names them; their content is decided here."""

from dataclasses import dataclass
from typing import Final, Literal

ProfileName = Literal["P1", "P2A", "P2B", "P3"]
PAGE_MICROS: Final = 2_000
"""Pages cost the same in each profile; more work on a page takes more time."""


@dataclass(frozen=True)
class Profile:
    """Orientation, tilt, the body pass and the marks of doubt belong to every profile."""

    mends: bool
    """Shadow, dust and grain are looked for and taken away."""
    columns: bool
    """Gutters are looked for; otherwise the page is one block."""
    rereads: bool
    """Parts with doubtful words are read again with each language alone."""
    small: bool
    """Parts with ink and no words, and lines of fine print, are read again enlarged."""
    title: bool
    """Large lines are read again at the size that the engine was made for."""
    page_seconds: float
    """No page takes longer; what was read until then is kept, and noted."""


PROFILES: Final[dict[ProfileName, Profile]] = {
    "P1": Profile(mends=False, columns=True, rereads=False, small=False, title=False, page_seconds=10),
    "P2A": Profile(mends=True, columns=True, rereads=True, small=True, title=False, page_seconds=20),
    "P2B": Profile(mends=True, columns=False, rereads=True, small=True, title=False, page_seconds=20),
    "P3": Profile(mends=True, columns=True, rereads=True, small=True, title=True, page_seconds=40),
}
