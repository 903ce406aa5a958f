"""Reads all files of a run, page by page, within time and hold. Pages that were not read are reported.

Each page is charged before it is read. When the hold or the time ends, the result is what was read until then; a run
that could not read a single page fails.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from runs.packs.ocr import exports, files
from runs.packs.ocr.engine import Gray, OcrEngine
from runs.packs.ocr.files import NotReadable
from runs.packs.ocr.inputs import OcrInputs, Source
from runs.packs.ocr.page import PageReader, PageText
from runs.packs.ocr.profiles import PAGE_MICROS, PROFILES
from runs.packs.ocr.read_page import ReadPage
from runs.packs.ocr.tessdata import folder, missing
from runs.packs.pack import EngineUnavailable, HoldExhausted, PackFailed, Work

KEPT_SHARE: Final = 0.2
KEPT_SECONDS_MAX: Final = 4.0
"""Seconds kept to end the current page and write the result; no page begins in them."""
NOTES_MAX: Final = 200


@dataclass
class OcrReader:
    work: Work[OcrInputs]
    read: list[ReadPage] = field(default_factory=list)
    notes: list[dict[str, JsonValue]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Why files and pages could not be read, for a run that read none."""

    def run(self) -> dict[str, JsonValue]:
        place = folder()
        if place is None:
            raise EngineUnavailable("Not installed: " + "; ".join(missing()))
        with OcrEngine(place) as engine:
            self._read_all(engine)
        if not self.read:
            raise PackFailed(" ".join(self.faults)[:1_000] or "No page could be read in the time.")
        exports.add(self.work, self.read)
        self.work.reliability = self._reliability()
        return {
            "texts": [page.document() for page in self.read],
            "notes": [*self.notes[:NOTES_MAX]],
            "pages_read": len(self.read),
            "ocr_profile": self.work.inputs.ocr_profile,
        }

    def _read_all(self, engine: OcrEngine) -> None:
        profile = PROFILES[self.work.inputs.ocr_profile]
        kept = min(KEPT_SECONDS_MAX, KEPT_SHARE * self.work.seconds_left())
        for image, number, page in self._pages():
            if isinstance(page, NotReadable):
                self._fault(image, f"page {number} {page.args[0]}", number)
                continue
            if (left := self.work.seconds_left() - kept) <= 0:
                self._stopped("TIME_EXHAUSTED", image, number)
                return
            try:
                self.work.meter.charge(PAGE_MICROS, tokens=1)
            except HoldExhausted:
                if not self.read:
                    raise
                self._stopped("HOLD_EXHAUSTED", image, number)
                return
            text = PageReader(engine, profile, seconds=min(profile.page_seconds, left)).read(page)
            self.read.append(ReadPage(image.key, number, text))
            self._note_page(image, number, text)
            self.work.tell(note=f"{len(self.read)} pages read")

    def _pages(self) -> Iterator[tuple[Source, int, Gray | NotReadable]]:
        """No more pages than were asked for; the first that is too many is noted, not read."""
        count = 0
        for image in self.work.inputs.images:
            try:
                for number, page in enumerate(files.pages(image, self._fetched(image)), start=1):
                    if count == self.work.inputs.max_pages:
                        self._stopped("MAX_PAGES", image, number)
                        return
                    count += 1
                    yield image, number, page
            except NotReadable as fault:
                self._fault(image, str(fault.args[0]))

    def _fetched(self, image: Source) -> bytes:
        try:
            return self.work.fetch_upload(image.key)
        except PackFailed as refused:
            raise NotReadable(f"was not given: {refused.detail.rstrip('.')}") from None

    # What is said beside the text.

    def _fault(self, image: Source, why: str, page: int | None = None) -> None:
        self.faults.append(f"{image.name} {why}.")
        self.work.discard_log.append({"source": image.key, "page": page, "reason": why})
        self._note("NOT_READ", f"{image.name} {why}", image, page)

    def _stopped(self, reason: str, image: Source, page: int) -> None:
        self.faults.append(f"{image.name} page {page}: {reason}.")
        self.work.discard_log.append({"source": image.key, "page": page, "reason": reason})
        self._note(reason, f"{image.name} from page {page} on, and all behind it, was not read", image, page)

    def _note_page(self, image: Source, number: int, text: PageText) -> None:
        if text.blank:
            self._note("BLANK_PAGE", f"{image.name} page {number}", image, number)
        if not text.complete:
            self._note("PAGE_INCOMPLETE", f"{image.name} page {number}: its time ran out", image, number)
        for word in dict.fromkeys(word for block in text.blocks for word in block.doubtful):
            self._note("VERIFY_SPELLING", word, image, number)
        if any(block.kind == "unread" for block in text.blocks):
            self._note("UNREAD_INK", f"{image.name} page {number} has marks that are no word", image, number)

    def _note(self, kind: str, value: str, image: Source, page: int | None) -> None:
        self.notes.append({"type": kind, "value": value, "source": image.key, "page": page})

    def _reliability(self) -> float | None:
        """The confidence of a letter of the run; ink that was not read counts as four letters of none."""
        weights = [
            (4 if block.kind == "unread" else len(block.text), block.confidence)
            for page in self.read
            for block in page.text.blocks
        ]
        letters = sum(weight for weight, _ in weights)
        return round(sum(weight * sure for weight, sure in weights) / letters, 4) if letters else None
