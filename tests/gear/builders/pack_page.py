"""What the page of a pack shows, for the test that runs it."""

import json
import re
from pathlib import Path
from typing import Any

PAGES = Path(__file__).resolve().parents[3] / "docs" / "packs"


def text(pack: str) -> str:
    return (PAGES / f"{pack}.md").read_text(encoding="utf-8")


def shown(pack: str) -> list[Any]:
    """Its JSON blocks, in order."""
    return [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", text(pack), re.MULTILINE | re.DOTALL)]
