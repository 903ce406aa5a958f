"""Character error rate by kind of page, and pages a minute on one core. `make bench-ocr` (SEEDS=20 for more of each).

Pages are those of tests/gear/corpora/ocr_corpus.py: printed here, so that their text is known. Spaces do not count as
letters; how many spaces are wrong is said beside it. Time is the processor's, so that a busy machine does not matter.
"""

import os
import sys
import time
from collections.abc import Iterator

os.environ["OMP_THREAD_LIMIT"] = "1"  # as in the box

from rapidfuzz.distance import Levenshtein

from runs.packs.ocr.engine import OcrEngine
from runs.packs.ocr.page import PageReader, PageText
from runs.packs.ocr.profiles import PROFILES, ProfileName
from runs.packs.ocr.tessdata import folder, missing
from tests.gear.corpora import ocr_corpus

SEEDS = 8
PLENTY_SECONDS = 600.0
FIRST_SEED = 1_000
"""Tests use the seeds below, on which thresholds of the pipeline were chosen."""


def text_of(page: PageText) -> str:
    return "\n".join(block.text for block in page.blocks)


def read(engine: OcrEngine, profile: ProfileName, sample: ocr_corpus.Sample) -> tuple[str, float]:
    begun = time.process_time()
    page = PageReader(engine, PROFILES[profile], seconds=PLENTY_SECONDS).read(sample.pixels)
    return text_of(page), time.process_time() - begun


def measured(engine: OcrEngine, profile: ProfileName, kind: str, seeds: int) -> Iterator[tuple[float, float, float]]:
    """Error rate, error rate with spaces, and seconds of each page."""
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        sample = ocr_corpus.sample(kind, seed)
        text, seconds = read(engine, profile, sample)
        spaced = Levenshtein.distance(" ".join(sample.truth.split()), " ".join(text.split())) / len(sample.truth)
        yield ocr_corpus.character_error_rate(sample.truth, text), spaced, seconds


def table(engine: OcrEngine, profile: ProfileName, seeds: int) -> None:
    print(f"{profile}: {seeds} pages of each kind")
    print(f"{'kind':12s} {'CER':>7s} {'worst':>7s} {'spaces':>7s} {'s/page':>7s} {'pages/min':>9s}")
    for kind in ocr_corpus.KINDS:
        if kind == "blank":
            continue
        pages = list(measured(engine, profile, kind, seeds))
        rates, spaced, seconds = zip(*pages, strict=True)
        each = sum(seconds) / seeds
        print(
            f"{kind:12s} {sum(rates) / seeds:7.2%} {max(rates):7.2%} {sum(spaced) / seeds:7.2%}"
            f" {each:7.2f} {60 / each:9.0f}",
            flush=True,
        )


def main() -> None:
    place = folder()
    if place is None or not ocr_corpus.FONTS.is_dir():
        sys.exit("not installed: " + "; ".join([*missing(), "fonts: make setup-ocr"]))
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    with OcrEngine(place) as engine:
        table(engine, "P2A", seeds)
        table(engine, "P1", max(1, seeds // 4))


if __name__ == "__main__":
    main()
