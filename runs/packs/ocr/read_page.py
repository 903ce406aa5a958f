"""One page that was read, as the result shows it."""

from dataclasses import dataclass

from pydantic import JsonValue

from runs.packs.ocr.page import PageText


@dataclass(frozen=True)
class ReadPage:
    """Where it stands in the run's files, and its text."""

    source: str
    page: int
    text: PageText

    def document(self) -> dict[str, JsonValue]:
        found = self.text
        return {
            "source": self.source,
            "page": self.page,
            "width": found.width,
            "height": found.height,
            "rotated_degrees": found.turned,
            "deskewed_degrees": round(found.tilt, 1),
            "mended": list(found.mended),
            "complete": found.complete,
            "blocks": [
                {
                    "text": block.text,
                    "confidence": round(block.confidence, 3),
                    "kind": block.kind,
                    "box": [block.box.left, block.box.top, block.box.width, block.box.height],
                }
                for block in found.blocks
            ],
        }
