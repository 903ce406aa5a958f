"""The same fault once more: another line, address, message, thread, minute, build. Seeded, so that a case repeats."""

import random
import re
import string
from collections.abc import Callable
from typing import Final

from tests.gear.corpora.auth_traces import GoldenTrace

MESSAGE_LENGTHS: Final = (0, 1, 80, 999, 1_000, 1_001, 7_900, 8_000, 20_000)
_WORDS: Final = (
    "user 4711", "of", "tenant", "비밀 없음", "was refused:", '"quoted"', "(in brackets)", "[state=7]", "é", "🔑",
    "at noon,", "\nnext line: x", "0x7ffd", "key -> value", "https://login.example.com/a/b", "{json}", "100%",
    "<tag>", "null", "password=hunter2", "it's",
)  # fmt: skip
_NUMBERS: Final = (
    r"(?<=\.java:)\d+", r"(?<=\.kt:)\d+", r"(?<=\.scala:)\d+", r'(?<=", line )\d+', r"(?<=\.go:)\d+",
    r"(?<=[a-z]:)\d+(?=:\d+\)?)", r"(?<=\d:)\d+(?=\)?$)", r"(?<=goroutine )\d+", r"(?<= in goroutine )\d+",
    r"(?<=\.func)\d+(?:\.\d+)?", r"(?<=\$Proxy)\d+", r"(?<=Accessor)\d+", r"(?<=lambda\$)(?<!\w)\d+",
    r"(?<=\$\$Lambda\$)\d+", r"(?<=thread-)\d+", r"(?<=exec-)\d+", r"(?<=Worker-)\d+", r"(?<=ipykernel_)\d+",
    r"(?<=, )\d+(?= minutes\])", r"(?<=_callee)\d+(?=\$)", r"(?<=repeated )\d+",
)  # fmt: skip
_LAMBDA: Final = re.compile(r"(lambda\$\w+\$|\$anonfun\$\w+\$)\d+")
_HEXES: Final = (
    r"(?<=[+ (,{]0x)[0-9a-f]+", r"(?<=SpringCGLIB\$\$)[0-9a-f]+", r"(?<=Lambda/0x)[0-9a-f]+",
    r"(?<=\.)[0-9a-f]{8}(?=\.(?:chunk\.)?js)", r"(?<=oauth-)[0-9a-f]{8}",
)  # fmt: skip
_DATE: Final = re.compile(r"\d{4}[-/]\d\d[-/]\d\d([ T])\d\d:\d\d:\d\d")
_THREAD: Final = re.compile(r'(?<=in thread ")[^"]+')


def mutated(golden: GoldenTrace, seed: int) -> str:
    """Several changes at once, which all leave the fault what it is."""
    random_ = random.Random(f"{golden.name} {seed}")  # noqa: S311  not for secrets
    text = golden.stacktrace
    chosen = random_.sample(CHANGES, k=random_.randint(1, len(CHANGES)))
    for change in sorted(chosen, key=CHANGES.index):  # line ends last: the others read lines
        text = change(text, golden, random_)
    return text


def message(random_: random.Random) -> str:
    length = random_.choice((*MESSAGE_LENGTHS, random_.randint(0, 20_000)))
    words = " ".join(random_.choices(_WORDS, k=length // 4 + 1))
    return words[:length]


def _numbers(text: str, _: GoldenTrace, random_: random.Random) -> str:
    for pattern in _NUMBERS:
        text = re.sub(pattern, lambda _: str(random_.randint(1, 99_999)), text, flags=re.MULTILINE)
    return _LAMBDA.sub(lambda found: f"{found[1]}{random_.randint(0, 99)}", text)


def _addresses(text: str, _: GoldenTrace, random_: random.Random) -> str:
    for pattern in _HEXES:
        text = re.sub(pattern, lambda found: "".join(random_.choices("0123456789abcdef", k=len(found[0]))), text)
    return text


def _messages(text: str, golden: GoldenTrace, random_: random.Random) -> str:
    """Behind each class at the head of a line; Go's own words are its classes, and stay."""
    if golden.language == "go":
        return re.sub(r"(?m)^panic: jwt: .*", lambda _: f"panic: {message(random_)}", text)
    simple = r"[\w.$<>]*(?:Error|Exception|TokenExpired|LoginFailed|Local|Unauthorized)(?: \[\w+\])?"
    head = rf"(?m)^([ |]*(?:Caused by: |Wrapped by: |\[cause\]: |cause: |Uncaught \(in promise\) )?{simple}): .*$"
    return re.sub(head, lambda found: f"{found[1]}: {message(random_)}", text)


def _times_and_threads(text: str, _: GoldenTrace, random_: random.Random) -> str:
    text = _DATE.sub(lambda found: f"2031-0{random_.randint(1, 9)}-11{found[1]}0{random_.randint(0, 9)}:59:59", text)
    name = "".join(random_.choices(string.ascii_lowercase + " -#", k=12))
    return _THREAD.sub(name, text)


def _line_ends(text: str, _: GoldenTrace, random_: random.Random) -> str:
    return text.replace("\n", random_.choice(("\r\n", "\r", "\u2028", "\x85")))


def _margins(text: str, golden: GoldenTrace, random_: random.Random) -> str:
    before = "\n" if golden.language == "python" else random_.choice(("\n", " \t\n", ""))
    return before + text + random_.choice(("\n\n", " ", "\r\n", "\n... \n", ""))


CHANGES: Final[tuple[Callable[[str, GoldenTrace, random.Random], str], ...]] = (
    _numbers,
    _addresses,
    _messages,
    _times_and_threads,
    _line_ends,
    _margins,
)
