"""Callers' regular expressions, run by RE2: a search takes time linear in text times pattern.

Everything works on UTF-8 bytes: over str the library counts characters at each match, which costs more than matching.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

import re2

PATTERN_LENGTH_MAX: Final = 1_000
PROGRAM_SIZE_MAX: Final = 3_000
"""A compiled pattern of this size takes 9 s at worst for 256 KB; `\\pL+` has 1,201, most patterns some dozens."""
MEMORY_BYTES: Final = 1_048_576
UNICODE_CLASSES_MAX: Final = 20
"""Each is hundreds of ranges, and RE2 spells all of them out before it finds the pattern too large: 300 take 22 ms."""
_UNICODE_CLASS: Final = re.compile(r"\\[pP]")
LINEAR: Final = "lookaround and backreferences do not exist there"


class PatternRefused(ValueError):  # noqa: N818  a refusal is named for what was refused
    """RE2 does not support the pattern, or it is too large; the message tells the caller why."""


def compiled_regex(pattern: str, *, ignore_case: bool = False) -> Any:
    """A pattern over bytes of UTF-8."""
    if len(_UNICODE_CLASS.findall(pattern)) > UNICODE_CLASSES_MAX:
        raise PatternRefused(f"the pattern has more than {UNICODE_CLASSES_MAX} Unicode classes; use fewer")
    options = re2.Options()
    options.max_mem = MEMORY_BYTES
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        made = re2.compile(pattern.encode(), options)
    except re2.error as refused:
        raise PatternRefused(_why_regex_is_refused(refused)) from None
    if made.programsize > PROGRAM_SIZE_MAX:
        raise PatternRefused("the pattern is too large; repeat less, or use fewer Unicode classes")
    return made


def _why_regex_is_refused(refused: Exception) -> str:
    said = refused.args[0] if refused.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    reason = text.split(": ", 1)[0]
    return f"not a pattern of RE2 ({reason}); {LINEAR}"


def character_offsets(data: bytes, edges: Iterable[int]) -> dict[int, int]:
    """For each byte offset, which must lie between two characters, how many characters are before it."""
    counted: dict[int, int] = {}
    seen = count = 0
    for edge in sorted(set(edges)):
        count += len(data[seen:edge].decode())
        counted[edge] = count
        seen = edge
    return counted
