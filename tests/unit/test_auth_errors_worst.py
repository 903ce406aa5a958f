"""A quarter of a megabyte of anything costs time linear in it, and not much more than a plain text of that size."""

import time
from collections.abc import Callable

import pytest

from ops.auth_errors.normaliser.traces import EXCEPTIONS_MAX, FRAMES_MAX
from ops.auth_errors.normaliser.versions import stack_hash
from ops.auth_errors.reports import cleaning
from ops.auth_errors.reports.cleaning import clean_report
from tests.proving import proofs

pytestmark = pytest.mark.contract("AUT-01")

LARGE = 262_144
TRIES = 4
DOUBLED_MAX = 2.5
ENGINE_MAX = 3.0
"""Of a plain text's time, with no regard to the half: RE2 goes over to a slower engine where a text is large."""
PLAIN_MAX = 12.0
ROOM_SECONDS = 0.004
"""The processor's clock is no finer on a busy machine."""
REPEATED = [
    "at ", "Caused by:", "Caused by: a.B: c\n", "x", ".", '"', "'", "eyJ", "-eyJ", "\n", " ", "(", " (", "at (",
    "at a(", "a.", "Aa.", "\tat com.example.Foo.bar(Foo.java:12)\n", "\tat a.B.c(B.java:12)\nCaused by: a.B\n",
    "\tSuppressed: a.B: c\n", "$$Lambda$1/", "    at f (/x.js:1:2)\n", "at x (eval at x (", "f@http://x/y.js:1:2\n",
    "@", "[cause]: ", "[errors]: [\n  aError\n", '  File "x", line 1, in f\n', 'File "',
    "Traceback (most recent call last):", "  +-+---- 1 ----\n", "  | ",
    'Traceback (most recent call last):\n  File "x", line 1, in f\n    x\nV: a\n', "goroutine 1 [running]:\n",
    "panic: ", "main.f()\n\t/x.go:1 +0x1\n", "created by ", "password=", "pwd=a ", 'password="', "password='\\",
    "token token=", "?a=b&", "://a@", "Cookie: a\n", "bearer token ", "basic aaaa ", "<password>", "--password x ",
    "[password", "-----BEGIN PRIVATE"+" KEY-----\n", "-----END PRIVATE"+" KEY-----", "dpp_abcdefgh_", "gh"+"p_",
    "a:b@tcp(", "\\u0026a=", "\x1b[", "\x1b[1m", "\0", "\r", "\u2028", "e\u0301", "\ud83d", "가", "\\n",
    "\\n\\tat a.B.c(B.java:1)", "0x", "1", "-",
]  # fmt: skip
ONCE = [
    "Authorization: {}", "password={}", 'password="{}', "Bearer {}1", "Basic {}1", "https://{}@h", "https://h/?a={}",
    "<password>{}", "--token {}", "u:{}@tcp(", "at {}(A.java:1)", "at f ({}:1:2)", 'File "{}", line 1, in f\n',
    "Caused by: {}: x", "{}\n\t/x.go:1\n",
]  # fmt: skip


def seconds(text: str) -> float:
    """Of the processor, for all that is done with a report."""
    fields = {"requestId": "r-1", "exceptionClass": "a.B", "stacktrace": text + "\nz"}
    begun = time.process_time()
    trace = clean_report(fields, key=b"k").frames
    stack_hash(trace)
    ended = time.process_time()
    assert len(trace["exceptions"]) <= EXCEPTIONS_MAX
    assert all(len(one["frames"]) <= FRAMES_MAX for one in trace["exceptions"])
    return ended - begun


def is_linear(written: Callable[[int], str], size: int) -> bool:
    """Asked again where a busy machine disturbs it: a search in square time fails each time."""
    for _ in range(TRIES):
        plain, half, whole = (seconds(text) for text in ("w " * (size // 2), written(size // 2), written(size)))
        bound = max(DOUBLED_MAX * half, ENGINE_MAX * plain)
        if whole < min(bound, PLAIN_MAX * plain) + ROOM_SECONDS:
            return True
    return False


def over_and_over(piece: str) -> Callable[[int], str]:
    """Half a pair is six bytes of a body, so that no report holds more of them than a sixth of its size."""
    bytes_each = 6 if "\ud83d" in piece else 1
    return lambda size: (piece * size)[: size // bytes_each]


def endless(around: str) -> Callable[[int], str]:
    return lambda size: around.format("v" * (size - len(around)))


@pytest.mark.parametrize("piece", REPEATED)
def test_aut_01_any_piece_over_and_over_is_read_in_linear_time(piece: str) -> None:
    assert is_linear(over_and_over(piece), LARGE // 4)


@pytest.mark.parametrize("around", ONCE)
def test_aut_01_one_endless_value_is_read_in_linear_time(around: str) -> None:
    assert is_linear(endless(around), LARGE // 4)


@pytest.mark.slow
def test_aut_01_the_largest_report_is_read_in_linear_time() -> None:
    written = [*map(over_and_over, REPEATED), *map(endless, ONCE)]
    written += [over_and_over(one + other) for one in REPEATED for other in REPEATED[::12]]
    assert [text(200) for text in written if not is_linear(text, LARGE)] == []
    proofs.report(cases=len(written))


def test_aut_01_the_bound_finds_a_search_in_square_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def square(text: str) -> str:
        # Much longer than all the rest takes, however quick the interpreter.
        steps = len(text) ** 2 // 200 if text.startswith("aaa") else 0
        return text + " " * (sum(range(steps)) < 0)

    monkeypatch.setattr(cleaning, "masked_text", square)
    monkeypatch.setitem(globals(), "TRIES", 1)
    assert not is_linear(over_and_over("a"), LARGE // 4)
