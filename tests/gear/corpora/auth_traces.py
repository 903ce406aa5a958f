"""Traces as Java, Python, JavaScript and Go print them, each with the hash that version 1 gave it once and for all.

`tests/gear/corpora/traces/LANGUAGE.txt` holds them under `=== fault@variant | exceptionClass | rootCauseClass`; two
variants of one fault (another build, another release of the language) have one hash. `\\e` stands for ESC.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "traces"
_HEAD: Final = re.compile(r"^=== (\S+) \| (.+?)(?: \| (.+))?\n", re.MULTILINE)


@dataclass(frozen=True)
class GoldenTrace:
    language: str
    name: str
    exception_class: str
    root_cause_class: str | None
    stacktrace: str

    @property
    def fault(self) -> str:
        return self.name.partition("@")[0]

    def fields(self, **others: str | None) -> dict[str, str | None]:
        """A report of it, by the names of the body."""
        return {
            "requestId": "r-1",
            "exceptionClass": self.exception_class,
            "rootCauseClass": self.root_cause_class,
            "stacktrace": self.stacktrace,
        } | others


def _read() -> tuple[GoldenTrace, ...]:
    found: list[GoldenTrace] = []
    for path in sorted(FOLDER.glob("*.txt")):
        text = path.read_text(encoding="utf-8").replace("\\e", "\x1b")
        heads = list(_HEAD.finditer(text))
        ends = [*(head.start() for head in heads[1:]), len(text)]
        for head, end in zip(heads, ends, strict=True):
            found.append(GoldenTrace(path.stem, head[1], head[2], head[3], text[head.end() : end].strip("\n")))
    return tuple(found)


def _pinned() -> dict[str, str]:
    lines = (FOLDER / "hashes_v1").read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ") for line in lines)


GOLDEN: Final = _read()
PINNED: Final = _pinned()
