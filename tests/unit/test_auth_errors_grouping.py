"""One fault has one hash, whatever varies in its traces; another fault has another. How versions follow each other."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.auth_errors.analysis import top_frame
from ops.auth_errors.normaliser import v1
from ops.auth_errors.normaliser.frameworks import in_app
from ops.auth_errors.normaliser.traces import EXCEPTIONS_MAX, FRAMES_MAX, NAME_LENGTH_MAX, SUPPRESSED, Trace
from ops.auth_errors.normaliser.versions import (
    CURRENT,
    VERSIONS,
    Grouping,
    VersionedHash,
    grouping_of_trace,
    stack_hash,
)
from ops.auth_errors.reports.cleaning import clean_report
from tests.gear.corpora.auth_traces import GOLDEN, PINNED, GoldenTrace
from tests.gear.corpora.trace_mutations import mutated
from tests.proving import proofs

pytestmark = pytest.mark.contract("AUT-10")

KEY = b"a key for the hashes"
MUTATIONS_IN_ALL = 1_000
MUTATIONS_OF_EACH = 1_000
"""In the slow proof."""
PARTS = 6
BY_NAME = {golden.name: golden for golden in GOLDEN}


def read(stacktrace: str, exception_class: str = "x.Unlikely", root_cause_class: str | None = None) -> Trace:
    fields = {
        "requestId": "r-1",
        "exceptionClass": exception_class,
        "rootCauseClass": root_cause_class,
        "stacktrace": stacktrace,
    }
    return clean_report(fields, key=KEY).frames


def of(golden: GoldenTrace, stacktrace: str | None = None) -> Trace:
    return read(
        golden.stacktrace if stacktrace is None else stacktrace, golden.exception_class, golden.root_cause_class
    )


def test_aut_10_the_corpus_is_as_large_as_promised() -> None:
    faults = defaultdict(set)
    for golden in GOLDEN:
        faults[golden.language].add(golden.fault)
    assert sum(map(len, faults.values())) >= 60
    assert {language for language, found in faults.items() if len(found) >= 10} == {
        "java",
        "python",
        "javascript",
        "go",
    }
    assert len(BY_NAME) == len(GOLDEN)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_aut_10_a_golden_trace_keeps_its_hash(golden: GoldenTrace) -> None:
    """A hash that moves loses the cluster and its decisions. What needs another rule needs another version."""
    trace = of(golden)
    assert trace["language"] == golden.language
    assert stack_hash(trace, 1) == PINNED[golden.name]
    assert json.loads(json.dumps(trace)) == trace


def test_aut_10_each_fault_has_a_hash_of_its_own_and_its_variants_share_it() -> None:
    assert set(PINNED) == set(BY_NAME)
    hashes = defaultdict(set)
    for name, pinned in PINNED.items():
        hashes[BY_NAME[name].fault].add(pinned)
    assert {fault for fault, found in hashes.items() if len(found) > 1} == set()
    assert len({pinned for found in hashes.values() for pinned in found}) == len(hashes)


def moved(golden: GoldenTrace, seeds: range) -> list[str]:
    """Mutations of a trace that have another hash, as text to be read."""
    pinned = PINNED[golden.name]
    changed = (mutated(golden, seed) for seed in seeds)
    return [text[:2_000] for text in changed if stack_hash(of(golden, text), 1) != pinned]


def test_aut_10_what_varies_moves_no_hash() -> None:
    """Lines, addresses, messages of 0 to 20,000 characters, generated names, threads, times, line ends, margins."""
    of_each = MUTATIONS_IN_ALL // len(GOLDEN) + 1
    assert {golden.name: texts for golden in GOLDEN if (texts := moved(golden, range(of_each)))} == {}
    assert sum(mutated(golden, 0) != golden.stacktrace for golden in GOLDEN) > 0.9 * len(GOLDEN)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_aut_10_what_varies_moves_no_hash_a_thousand_times_over(part: int) -> None:
    """In parts, which two processes carry out side by side."""
    for golden in GOLDEN[part::PARTS]:
        assert moved(golden, range(MUTATIONS_OF_EACH)) == []
    proofs.report(cases=len(GOLDEN[part::PARTS]) * MUTATIONS_OF_EACH, seed="0 to 999 of each trace")


def own_places(trace: Trace) -> list[tuple[int, int]]:
    """Exception and frame of each place that counts: the application's own, passed once, not beside the chain."""
    folded = Counter(
        v1.folded_frame(trace["language"], frame) for one in trace["exceptions"] for frame in one["frames"]
    )
    return [
        (number, at)
        for number, one in enumerate(trace["exceptions"])
        for at, frame in enumerate(one["frames"])
        if one["relation"] != SUPPRESSED
        and in_app(trace["language"], frame)
        and folded[v1.folded_frame(trace["language"], frame)] == 1
        and not v1.comes_and_goes(trace["language"], frame)
    ]


def test_aut_10_one_place_of_the_application_less_or_another_is_another_fault() -> None:
    changed = 0
    for golden in GOLDEN:
        trace = of(golden)
        for number, at in own_places(trace):
            renamed, without = (json.loads(json.dumps(trace)) for _ in range(2))
            renamed["exceptions"][number]["frames"][at]["function"] = "otherName"
            del without["exceptions"][number]["frames"][at]
            hashes = {stack_hash(one) for one in (trace, renamed, without)}
            assert len(hashes) == 3, (golden.name, trace["exceptions"][number]["frames"][at])
            changed += 1
    assert changed > 150


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("spring-jwt-expired@jdk-17", "JwtTokenProvider.validate(", "JwtTokenProvider.revalidate("),
        ("spring-jwt-expired@jdk-17", "com.acme.security.JwtTokenProvider", "com.acme.security.OtherTokenProvider"),
        ("spring-jwt-expired@jdk-17", "io.jsonwebtoken.ExpiredJwtException", "io.jsonwebtoken.PrematureJwtException"),
        ("hikari-exhausted", "Caused by: java.sql.SQLTransient", "Caused by: java.sql.SQLNonTransient"),
        ("chain-from@3.13", ", in chain_from", ", in chain_to"),
        ("chain-from@3.13", "KeyError: 'x'", "IndexError: 'x'"),
        ("django-login-decorated", "/srv/shop/accounts/backends.py", "/srv/shop/accounts/frontends.py"),
        ("express-middleware", "requireUser", "requireAdmin"),
        ("express-middleware", "src/middleware/auth.ts", "src/middleware/author.ts"),
        ("firefox-react", "SessionGate@", "SessionDoor@"),
        ("http-nil-session@go-1.21", "(*Sessions).Current", "(*Sessions).Last"),
        ("http-nil-session@go-1.21", "acme/portal/auth.", "acme/portal/author."),
        ("trimpath", "integer divide by zero", "slice bounds out of range [:1] with capacity 0"),
    ],
)
def test_aut_10_another_text_of_another_fault_has_another_hash(name: str, before: str, after: str) -> None:
    golden = BY_NAME[name]
    text = golden.stacktrace.replace(before, after)
    assert text != golden.stacktrace
    exception_class = golden.exception_class.replace(before.removesuffix(": 'x'"), after.removesuffix(": 'x'"))
    assert stack_hash(read(text, exception_class)) != PINNED[name]


def test_aut_10_frames_of_frameworks_count_where_no_others_are() -> None:
    golden = BY_NAME["spring-framework-only@native-reflection"]
    other = golden.stacktrace.replace(
        "BasicAuthenticationFilter.doFilterInternal", "DigestAuthenticationFilter.doFilter"
    )
    assert stack_hash(of(golden, other)) != PINNED[golden.name]
    own = "\tat com.acme.Gate.open(Gate.java:1)\n"
    with_own = [text.replace("\tat org", own + "\tat org", 1) for text in (golden.stacktrace, other)]
    assert len({stack_hash(of(golden, text)) for text in with_own}) == 1


def test_aut_10_what_was_suppressed_beside_the_chain_is_kept_and_moves_nothing() -> None:
    golden = BY_NAME["plain-suppressed"]
    trace = of(golden)
    assert [one["exception_class"] for one in trace["exceptions"] if one["relation"] == SUPPRESSED] == [
        "java.io.IOException"
    ]
    without = re.sub(r"\tSuppressed: (?:.*\n)(?:\t\t.*\n)+", "", golden.stacktrace)
    assert without != golden.stacktrace
    assert stack_hash(of(golden, without)) == stack_hash(trace) == PINNED[golden.name]


def test_aut_10_the_members_of_a_group_count_in_any_order() -> None:
    golden = BY_NAME["group@3.13"]
    head, one, other, foot = re.split(r"(?m)^ +\+[-+]+ \d -+\n|^    \+-+$", golden.stacktrace)
    drawn = "  +-+---------------- 1 ----------------\n", "    +---------------- 2 ----------------\n", "    +---------"
    turned = head + drawn[0] + other + drawn[1] + one + drawn[2] + foot
    assert stack_hash(of(golden, turned)) == PINNED[golden.name]


SAME_PLACES = [
    ("at a.B.c(B.java:1)\n\tat java.base/java.lang.Thread.run(Thread.java:8)", "at a.B.c(B.java:1)"),
    ("at a.B$$EnhancerBySpringCGLIB$$1f.c(<generated>)", "at a.B$$SpringCGLIB$$0.c(<generated>)"),
    ("at a.B$1.run(B.java:1)", "at a.B$3.run(B.java:9)"),
    ("at a.B.c(SourceFile:1)\n\tat a.B$$ExternalSyntheticLambda0.run(Unknown Source:4)", "at a.B.c(SourceFile:7)"),
    ("at a.B.lambda$c$0(B.java:1)", "at a.B.lambda$c$11(B.java:9)"),
    ("at a.B.access$000(B.java:1)", "at a.B.access$100(B.java:9)"),
    ("at a.B$MockitoMock$12.c(Unknown Source)", "at a.B$MockitoMock$77.c(Unknown Source)"),
    ("at a.B.c(B.java:1)\n\tat a.B.c(B.java:1)\n\tat a.B.c(B.java:1)", "at a.B.c(B.java:1)"),
    ("at a.B.c(B.java:1)\n\tat sun.reflect.GeneratedMethodAccessor3.invoke(Unknown Source)", "at a.B.c(B.java:1)"),
    ("at f (/srv/a/b/c.js:1:2)", "at async f (file:///opt/a/b/c.js:9:2)"),
    ("at Object.f (/srv/a/b/c.js:1:2)", "at f [as g] (/srv/a/b/c.js:1:2)"),
    ("at new F (/srv/a/b/c.js:1:2)", "at F (/srv/a/b/c.js:1:2)"),
    ("at <anonymous> (/srv/a/b/c.js:1:2)", "at /srv/a/b/c.js:9:9"),
    ("at f (https://h/js/app.1a2b3c4d.js:1:2)", "at f (https://i/js/app.99ffaa01.js?x=1:1:2)"),
    ("at f (https://h/js/app.deadbeef.js:1:2)", "at f (https://h/js/app.12345678.js:1:2)"),
    ("at f (https://h/js/app-Bq3kZ0aP.js:1:2)", "at f (https://h/js/app-C7hhQ1_x.js:1:2)"),
]


@pytest.mark.parametrize(("one", "other"), SAME_PLACES)
def test_aut_10_two_ways_to_print_one_place(one: str, other: str) -> None:
    assert stack_hash(read(f"Error: x\n\t{one}", "Error")) == stack_hash(read(f"Error: y\n\t{other}", "Error"))


def test_aut_10_a_trace_whose_line_ends_were_escaped_once_too_often_is_the_same() -> None:
    for name in ("spring-jwt-expired@jdk-17", "chain-from@3.13", "express-middleware", "http-nil-session@go-1.21"):
        escaped = json.dumps(BY_NAME[name].stacktrace, ensure_ascii=False)[1:-1].replace('\\"', '"')
        assert "\n" not in escaped
        assert stack_hash(of(BY_NAME[name], escaped)) == PINNED[name]


def test_aut_10_a_text_without_frames_is_its_chain_of_classes() -> None:
    text = "a.Outer: x\nCaused by: a.Inner: y"
    trace = read(text, "a.Outer")
    assert v1.trace_shape(trace) == [["a.Inner"], ["a.Outer"]]
    assert stack_hash(read("a.Outer: other\nCaused by: a.Inner: words", "a.Outer")) == stack_hash(trace)
    assert stack_hash(read("nothing known", "a.Outer")) == stack_hash(read("nothing at all", "a.Outer"))
    assert stack_hash(read("nothing known", "a.Outer")) != stack_hash(read("nothing known", "a.Other"))
    assert stack_hash(read("nothing", "a.Outer", "a.One")) != stack_hash(read("nothing", "a.Outer", "a.Two"))


def test_aut_10_reported_classes_stand_in_for_what_the_text_does_not_name() -> None:
    firefox = "f@https://h/a.js:1:2"
    assert v1.trace_shape(read(firefox, "TypeError")) == [["TypeError", "a.js:f"]]
    java = "a.Outer: x\n\tat a.B.c(B.java:1)"
    assert v1.trace_shape(read(java, "Outer")) == [["a.Outer", "a.B.c"]]
    assert v1.trace_shape(read(java, "a.Outer", "a.Root")) == [["a.Root"], ["a.Outer", "a.B.c"]]
    assert v1.trace_shape(read(java, "b.Reported")) == [["a.Outer", "a.B.c"], ["b.Reported"]]


def test_aut_10_a_deep_chain_keeps_what_is_next_to_the_root() -> None:
    text = "\nCaused by: ".join(f"a.E{n}: x\n\tat a.B.m{n}(B.java:1)" for n in range(40))
    names = [one["exception_class"] for one in read(text, "a.E0")["exceptions"]]
    assert names == [f"a.E{n}" for n in range(39, 39 - EXCEPTIONS_MAX, -1)]


def test_aut_10_of_many_frames_the_applications_own_are_kept() -> None:
    frames = [f"\tat org.hibernate.X.m{n}(X.java:1)" for n in range(60)]
    frames[50:50] = ["\tat a.B.own(B.java:1)"]
    (found,) = read("a.E: x\n" + "\n".join(frames), "a.E")["exceptions"]
    functions = [frame["function"] for frame in found["frames"]]
    assert functions == [*(f"m{n}" for n in range(FRAMES_MAX - 1)), "own"]


def test_aut_10_a_frame_that_was_cut_by_the_sender_is_no_frame() -> None:
    whole = "a.E: x\n\tat a.B.one(B.java:1)\n\tat a.B.two(B.java:2)"
    for length in range(whole.index("\tat a.B.two") + 1, len(whole)):
        assert v1.trace_shape(read(whole[:length], "a.E")) == [["a.E", "a.B.one"]]


def test_aut_10_names_are_bounded() -> None:
    long = "x" * 700
    trace = read(f"a.{long}: x\n\tat a.{long}.{long[:200]}(B.java:1)", "a.E")
    texts = [frame[part] for one in trace["exceptions"] for frame in one["frames"] for part in ("module", "function")]
    texts += [one["exception_class"] for one in trace["exceptions"]]
    assert max(len(text) for text in texts) == NAME_LENGTH_MAX


def hashing(text: str) -> Callable[[Trace], str]:
    return lambda _: text


TRACE: Trace = {"language": "unknown", "exceptions": []}


def test_aut_10_a_version_looks_at_the_older_one_only_while_its_own_hash_is_unknown() -> None:
    asked: list[str] = []

    def known(*hashes: str) -> Callable[[VersionedHash], bool]:
        def ask(hashed: VersionedHash) -> bool:
            asked.append(hashed.stack_hash)
            return hashed.stack_hash in hashes

        return ask

    def refuse(_: Trace) -> str:
        raise AssertionError("the older version was computed")

    versions = {1: hashing("one"), 2: hashing("two"), 3: hashing("three")}
    own = VersionedHash(3, "three")
    assert grouping_of_trace(TRACE, known("three", "two"), {**versions, 1: refuse, 2: refuse}) == Grouping(own, None)
    assert grouping_of_trace(TRACE, known("one", "two"), {**versions, 1: refuse}) == Grouping(
        own, VersionedHash(2, "two")
    )
    assert grouping_of_trace(TRACE, known("one"), versions) == Grouping(own, VersionedHash(1, "one"))
    assert grouping_of_trace(TRACE, known(), versions) == Grouping(own, None)
    assert asked == ["three", "three", "two", "three", "two", "one", "three", "two", "one"]


def test_aut_10_the_registry_has_each_version_under_its_number() -> None:
    assert (CURRENT, set(VERSIONS)) == (1, {1})
    assert grouping_of_trace(of(GOLDEN[0]), lambda _: False).own == VersionedHash(1, PINNED[GOLDEN[0].name])
    with pytest.raises(KeyError):
        stack_hash(TRACE, 99)


def test_aut_10_a_cluster_is_named_by_the_applications_place() -> None:
    assert top_frame(of(BY_NAME["spring-jwt-expired@jdk-17"])) == "com.acme.security.JwtTokenProvider.validate"
    framework_only = "org.springframework.security.authentication.dao"
    assert top_frame(of(BY_NAME["spring-framework-only@native-reflection"])).startswith(framework_only)
    assert top_frame(TRACE) == ""


LINES = [
    "a.B: x", "Caused by: a.C: y", "\tSuppressed: a.D", "\tat a.B.c(B.java:1)", "\t... 3 more", "Error: x",
    "    at f (/x.js:1:2)", "    at async Promise.all (index 0)", "f@https://h/x.js:1:2", "  [cause]: TypeError: z",
    "  [errors]: [", "  }", "    ValueError: q", "Traceback (most recent call last):", '  File "x.py", line 1, in f',
    "    f()", "ValueError: x", "KeyError", "  + Exception Group Traceback (most recent call last):",
    '  |   File "y.py", line 2, in g', "  | ExceptionGroup: e (1 sub-exception)",
    "  +-+---------------- 1 ----------------", "    | Traceback (most recent call last):",
    "    +------------------------------------",
    "During handling of the above exception, another exception occurred:", "panic: x", "goroutine 1 [running]:",
    "main.f(0x1)", "\t/src/main.go:1 +0x1", "created by main.g in goroutine 1", "fatal error: y", "", " ",
    "password=hunter2", "***", "(", "|", "at ",
]  # fmt: skip


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=25).map("\n".join))
@settings(max_examples=300, deadline=None)
def test_aut_10_any_mixture_of_lines_is_read_and_what_is_kept_of_it_reads_the_same(text: str) -> None:
    report = clean_report({"requestId": "r-1", "exceptionClass": "a.E", "stacktrace": text + "\nz"}, key=KEY)
    assert not report.truncated
    assert len(stack_hash(report.frames)) == 64
    assert read(report.stacktrace, "a.E") == report.frames
    assert read(text.replace("\n", "\r\n") + "\r\nz", "a.E") == report.frames
