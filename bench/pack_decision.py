"""The embedded decision engine over 50 KB: milliseconds of a question, Korean and English, and through the box.

    make bench B=pack_decision

Promised: 20 ms. Each question of tests/data/decision_questions.json over the contexts of its language, repeated up to
50 KB; the median and the worst of the best of three.
"""

import json
import statistics
import time
from pathlib import Path
from typing import Any

from runs.box.box import Box
from runs.box.outcomes import Done
from runs.box.running import PackRequest
from runs.packs import decision
from runs.packs.decision import extractive
from tests.gear.builders.packs import no_upload

CONTEXT_BYTES = 50_000
DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "decision_questions.json"


def milliseconds(question: str, context: str) -> float:
    """The processor's, so that a busy machine does not matter."""
    taken = []
    for _ in range(3):
        started = time.process_time()
        extractive.extract_answer(question, context)
        taken.append(time.process_time() - started)
    return min(taken) * 1e3


def long_context(sets: list[dict[str, Any]]) -> str:
    context = ""
    while len(context.encode()) < CONTEXT_BYTES:
        context += " ".join(one["context"] for one in sets) + " "
    return context


def through_the_box(question: str, context: str) -> float:
    box = Box([decision.__name__])
    box.ready(decision.__name__)
    job = PackRequest(
        run_id="bench",
        module=decision.__name__,
        inputs={"question": question, "context": context},
        timebox_seconds=20,
        ceiling_micros=1_000_000,
        memory_bytes=decision.PACK.memory_bytes,
    )
    taken = []
    for _ in range(20):
        started = time.perf_counter()
        found = box.start(job, fetch_upload=no_upload, log=lambda *_args, **_values: None).wait()
        taken.append(time.perf_counter() - started)
        assert isinstance(found, Done)
    box.close()
    return statistics.median(taken) * 1e3


def main() -> None:
    everything = json.loads(DATA.read_text(encoding="utf-8"))
    print(f"{'language':>8} {'questions':>9} {'median ms':>9} {'worst ms':>8} {'box ms':>7}")
    for language in ("ko", "en"):
        sets = [one for one in everything if one["language"] == language]
        context = long_context(sets)
        questions = [asked["question"] for one in sets for asked in one["questions"]]
        taken = [milliseconds(question, context) for question in questions]
        box_ms = through_the_box(questions[0], context)
        median = statistics.median(taken)
        print(f"{language:>8} {len(questions):9d} {median:9.1f} {max(taken):8.1f} {box_ms:7.1f}")


if __name__ == "__main__":
    main()
