"""What docs/packs.md shows of a pack, for the test that runs it."""

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "packs.md"


def shown(pack: str) -> list[Any]:
    """The JSON blocks of its section, in order."""
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    section = next(section for section in sections if section.startswith(f"{pack}\n"))
    return [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", section, re.MULTILINE | re.DOTALL)]
