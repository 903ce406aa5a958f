"""What the eval pack takes of a core: each metric over a thousand short items, and over one of the largest size.

make bench B=pack_eval
"""

import random
import time
from typing import Any

from runs.packs.eval import PACK
from tests.gear.builders.packs import judge

METRICS = ["exact_match", "token_f1", "rouge_l", "chrf", "bleu", "wer", "cer"]
ITEMS = 200
WORDS = ["서울은", "대한민국의", "수도이다", "the", "quick", "brown", "fox", "jumps", "환불은", "실패한", "실행에만"]


def text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words))


def milliseconds(items: list[dict[str, Any]], metric: str) -> float:
    begun = time.process_time()
    judge(PACK, {"items": items, "metrics": [{"type": metric}]})
    return (time.process_time() - begun) * 1_000


def main() -> None:
    chance = random.Random(7)
    short = [{"id": str(n), "output": text(chance, 40), "expected": text(chance, 40)} for n in range(ITEMS)]
    long = [{"id": "a", "output": text(chance, 30_000)[:125_000], "expected": text(chance, 30_000)[:125_000]}]
    for metric in METRICS:
        print(
            f"{metric:12s} {milliseconds(short, metric) / ITEMS * 1_000:8.0f} us an item of 2 x 40 words"
            f" {milliseconds(long, metric):8.0f} ms one of 2 x 125,000 characters"
        )


if __name__ == "__main__":
    main()
