"""What a report of an auth error takes of a core before it is stored: cleaning, masking, frames, and its hash.

A typical report has 4 KiB; the largest that is taken has 256 KiB, and the worst of those is text that looks like a
secret or a frame all along. Each share is what the report takes without that step, taken from the whole.

    make bench B=report_cleaning
"""

import time
from collections.abc import Callable

from ops.auth_errors.normaliser.versions import stack_hash
from ops.auth_errors.reports import frames
from ops.auth_errors.reports.cleaning import clean_report, plain_text
from ops.auth_errors.reports.masking import masked_text
from tests.gear.corpora.auth_traces import GOLDEN

LARGE = 262_144
ROUNDS = 200
GOLDEN_4K = next(one for one in GOLDEN if one.name == "sixty-two-frames-before-the-cause")
WORST = {
    "plain words": "words of no kind ",
    "frames of Java": "\tat com.example.Foo.bar(Foo.java:12)\n",
    "frames of Python": '  File "/srv/app/x.py", line 12, in bar\n',
    "nested causes": "Caused by: a.B: c\n\tat a.B.c(B.java:1)\n",
    "passwords": "password=hunter2 ",
    "values of a query": "?a=b&",
    "names without values": "password= token= secret= ",
    "one value": "password=",
    "half tokens": "eyJhbGciOiJIUzI1NiJ9.",
}


def milliseconds(call: Callable[[], object], rounds: int) -> float:
    """Of the processor, for one call; the least of three, since others may disturb it."""
    found = []
    for _ in range(3):
        begun = time.process_time()
        for _ in range(rounds):
            call()
        found.append((time.process_time() - begun) * 1_000 / rounds)
    return min(found)


def main() -> None:
    fields = GOLDEN_4K.fields(stacktrace=(GOLDEN_4K.stacktrace + "\n")[:4_096])
    text = plain_text(fields["stacktrace"]) or ""
    trace = clean_report(fields, key=b"k").frames
    steps: dict[str, Callable[[], object]] = {
        "all of a report": lambda: stack_hash(clean_report(fields, key=b"k").frames),
        "plain text": lambda: plain_text(fields["stacktrace"]),
        "masking": lambda: masked_text(text),
        "frames": lambda: frames.read_trace(text, GOLDEN_4K.exception_class, None),
        "hash": lambda: stack_hash(trace),
    }
    print(f"a trace of {len(text):,} characters")
    for name, call in steps.items():
        print(f"  {name:22s} {milliseconds(call, ROUNDS):8.3f} ms")
    print(f"the stacktrace of {LARGE:,} characters")
    for name, piece in WORST.items():
        written = (piece * LARGE)[:LARGE] if name != "one value" else piece + "x" * (LARGE - len(piece))
        large = GOLDEN_4K.fields(stacktrace=written)
        print(f"  {name:22s} {milliseconds(lambda: stack_hash(clean_report(large, key=b'k').frames), 3):8.1f} ms")  # noqa: B023


if __name__ == "__main__":
    main()
