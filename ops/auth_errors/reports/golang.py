"""Reads what Go's runtime prints of a panic, and stacks of `%+v` errors: a function, and its file on the next line.

Of several goroutines the one that runs counts, else the first: what the others did then says nothing of the fault.
"""

import re
from itertools import islice
from typing import Final

from ops.auth_errors.normaliser.traces import TracedFrame
from ops.auth_errors.reports.patterns import linear_pattern
from ops.auth_errors.reports.scanning import FRAMES_SCANNED, LINE_LENGTH_MAX, FoundException, traced_frame

_FILE: Final = r"[ \t]*([^\n\t]+\.(?:go|s)):\d+(?: \+0x[0-9a-f]+)?(?: [fs]p=[^\n]*)?[ \t]*"
"""Its tab may have become spaces, or nothing, on the way."""
FIRST_FRAME: Final = linear_pattern(rf"(?m)^goroutine \d+[^\n]*\[[^\n]*\]:[ \t]*$|^[^\s][^\n]*\n{_FILE}$")
_GOROUTINE: Final = linear_pattern(r"(?m)^goroutine \d+[^\n]*\[([^\n\],]*)[^\n]*\]:[ \t]*$")
_FRAME: Final = linear_pattern(rf"(?m)^([^\s][^\n]*)\n{_FILE}$")
_PANIC: Final = linear_pattern(
    r"(?m)^(?:[^\n]*\bpanic(?: serving [^\s]+)?: |(fatal error: )|[^\n]*\b(runtime error: ))([^\n]*)$"
)
_CREATOR: Final = re.compile(r"^created by (.*?)(?: in goroutine \d+)?$")
_FIXED_WORDS: Final = re.compile(r"[A-Za-z ,'-]*+")
_GOROUTINES_SCANNED: Final = 1_000


def read_golang_trace(text: str) -> list[FoundException]:
    data = text.encode()
    heads = list(islice(_GOROUTINE.finditer(data), _GOROUTINES_SCANNED))
    chosen = next((number for number, head in enumerate(heads) if head.group(1) == b"running"), 0)
    begin = heads[chosen].end() if heads else 0
    end = heads[chosen + 1].start() if chosen + 1 < len(heads) else len(data)
    frames = [
        _frame(match.group(1).decode(), match.group(2).decode())
        for match in islice(_FRAME.finditer(data[begin:end]), FRAMES_SCANNED)
        if match.end() - match.start() <= LINE_LENGTH_MAX
    ]
    return [FoundException(_kind(data[: heads[0].start()] if heads else data), frames)]


def _kind(head: bytes) -> str:
    """Go has no classes: the runtime's own words are one, without what varies in them; a program's words are not."""
    found = _PANIC.search(head)
    if found is None:
        return ""
    words = found.group(3).decode()
    is_runtime = found.group(1) is not None or found.group(2) is not None or words.startswith("runtime error: ")
    if not is_runtime:
        return "panic"
    fixed = _FIXED_WORDS.match(words.removeprefix("runtime error: "))
    kind = "" if fixed is None else fixed[0].strip(" -,")
    return f"fatal error: {kind}" if found.group(1) is not None else f"runtime error: {kind}"


def _frame(function: str, file: str) -> TracedFrame:
    """`example.com/app/auth.(*Service).Login.func1(0xc0001, {0x1, 0x2})`."""
    if creator := _CREATOR.match(function):
        function = creator[1]
    elif function.endswith(")"):
        function = function[: function.rfind("(")]
    package, slash, rest = function.rpartition("/")
    name, _, method = rest.partition(".")
    return traced_frame(module=f"{package}{slash}{name}", function=method, file=file)
