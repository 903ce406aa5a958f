"""No shape of a body takes more than 30 times its size to read (HRD-09)."""

import gc
import itertools
import string
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from dpp_project.http.parsers import MAX_BODY_BYTES, SMALL_MEMORY_BYTES, parse_json
from dpp_project.http.problems import Problem

pytestmark = pytest.mark.contract("HRD-09")

MOST_PER_BYTE: Final = 30
TOO_MANY: Final = "The body is not strict JSON: it holds too many arrays, objects and names for its length."
FACE: Final = "\U0001f600"


@pytest.fixture(scope="module", autouse=True)
def _little_to_collect() -> None:
    """What earlier tests left is looked through once, and not for each body: it may be millions of objects."""
    gc.collect()
    gc.freeze()


def names() -> Iterator[str]:
    """The shortest there are, each once."""
    letters = string.ascii_letters + string.digits
    return ("".join(parts) for length in itertools.count(1) for parts in itertools.product(letters, repeat=length))


def row(item: str, size: int) -> str:
    return "[" + (item + ",") * (size // (len(item.encode()) + 1)) + "0]"


def nested(inner: str, depth: int = 30, opens: str = "[", closes: str = "]") -> str:
    return opens * depth + inner + closes * depth


def many_names(size: int, before: str, between: str, after: str) -> str:
    each = len(between) + 7
    return before + between.join(f'"{name}":0' for name in itertools.islice(names(), size // each)) + after


SHAPES: Final[dict[str, Callable[[int], str]]] = {
    "empty arrays": lambda size: row("[]", size),
    "empty objects": lambda size: row("{}", size),
    "arrays in arrays": lambda size: row("[[]]", size),
    "objects in arrays": lambda size: row("[{}]", size),
    "deep arrays": lambda size: row(nested(""), size),
    "deep objects": lambda size: row(nested("0", opens='{"":', closes="}"), size),
    "deep, then wide": lambda size: nested(row("0", size), opens='{"a":', closes="}"),
    "deep, then wide with texts": lambda size: nested(row('"ab"', size)),
    "deep, with one text that cannot be stored": lambda size: nested(row("0", size)[:-1] + ',"\\u0000"]'),
    "wide, each text not to be stored": lambda size: row('"\\ud800"', size),
    "one value each": lambda size: row("[0]", size),
    "one name each": lambda size: row('{"":0}', size),
    "one new name each": lambda size: many_names(size, "[{", "},{", "}]"),
    "one new name each, wide text": lambda size: many_names(size, f'["{FACE}",{{', "},{", "}]"),
    "many names": lambda size: many_names(size, "{", ",", "}"),
    "many names, wide text": lambda size: many_names(size, "{" + f'"{FACE}":0,', ",", "}"),
    "a name again and again": lambda size: "{" + '"a":0,' * (size // 6) + '"a":0}',
    "a long name over many values": lambda size: '{"' + "a" * (size // 2) + '":' + row("0", size // 2) + "}",
    "small numbers": lambda size: row("0", size),
    "numbers": lambda size: row("300", size),
    "long numbers": lambda size: row("9" * 4_300, size),
    "fractions": lambda size: row("1.5", size),
    "powers": lambda size: row("1e1", size),
    "short texts": lambda size: row('"ab"', size),
    "short texts, wide": lambda size: row('"한"', size),
    "one text": lambda size: '["' + "a" * size + '"]',
    "one wide text": lambda size: '["' + "a" * size + FACE + '"]',
    "escapes": lambda size: '["' + "\\n" * (size // 2) + '"]',
    "pairs of surrogates": lambda size: '["' + "\\ud83d\\ude00" * (size // 12) + '"]',
    "punctuation in a text of escapes": lambda size: '["' + '\\"[{:' * (size // 5) + '"]',
    "pages of short rows": lambda size: row('{"a":[],"b":{}}', size),
}


def read(body: bytes) -> tuple[int, str]:
    """The most memory that reading took, and what was said against the body."""
    gc.collect()
    tracemalloc.start()
    try:
        parse_json(body)
    except Problem as problem:
        said = problem.detail
    else:
        said = ""
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return most, said


@pytest.mark.parametrize("size", [20_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_hrd_09_reading_takes_at_most_30_times_the_body(shape: str, size: int) -> None:
    body = SHAPES[shape](size).encode()
    most, _said = read(body)
    assert most <= MOST_PER_BYTE * len(body) + SMALL_MEMORY_BYTES, f"{most / len(body):.1f} times"


@pytest.mark.parametrize("shape", ["many names"])
def test_hrd_09_also_where_the_body_is_as_long_as_one_may_be(shape: str) -> None:
    body = SHAPES[shape](MAX_BODY_BYTES - 100).encode()
    most, _said = read(body)
    assert most <= MOST_PER_BYTE * len(body), f"{most / len(body):.1f} times"


def test_hrd_09_what_is_little_but_structure_is_refused_before_anything_is_made_of_it() -> None:
    body = SHAPES["deep arrays"](100_000).encode()
    most, said = read(body)
    assert said == TOO_MANY
    assert most < 2 * len(body)


def test_hrd_09_punctuation_inside_of_texts_is_no_structure() -> None:
    texts = ["[{" * 50_000, '"[' * 50_000, "\\[" * 50_000, "::::" * 25_000, "한[[" * 20_000]
    for text in texts:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        assert parse_json(f'{{"a":"{escaped}"}}'.encode()) == {"a": text}


@pytest.mark.parametrize(
    "item", ['{"id":1,"v":2}', "[0.5,0.5]", '{"output":"a","reference":"b"}', '{"id":1,"v":"한"}', "[1,2,3]"]
)
def test_hrd_09_dense_tables_are_read(item: str) -> None:
    body = row(item, 20_000).encode()
    most, said = read(body)
    assert said == ""
    assert most <= MOST_PER_BYTE * len(body)
