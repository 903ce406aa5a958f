"""A report before anything of it is stored: the order of its steps, its cuts, its hashes."""

import json
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.auth_errors.normaliser.versions import stack_hash
from ops.auth_errors.reports.cleaning import (
    MESSAGE_LENGTH_MAX,
    STACKTRACE_LENGTH_MAX,
    BlankField,
    CleanReport,
    clean_report,
    cut_text,
    keyed_hash,
)
from ops.auth_errors.reports.masking import MASK
from tests.gear.corpora.auth_traces import GOLDEN

pytestmark = pytest.mark.contract("AUT-01")

KEY = b"a key for the hashes"
REPORT: dict[str, str | None] = {
    "requestId": "r-1",
    "exceptionClass": "a.B",
    "stacktrace": "a.B: c\n\tat a.B.d(B.java:1)",
}
OPTIONAL = (
    ("exceptionMessage", "exception_message"),
    ("rootCauseClass", "root_cause_class"),
    ("rootCauseMessage", "root_cause_message"),
    ("requestUri", "request_uri"),
    ("httpMethod", "http_method"),
    ("clientIp", "client_ip"),
    ("userAgent", "user_agent"),
    ("sessionId", "session_id"),
    ("userId", "user_id"),
)


def clean(**fields: str | None) -> CleanReport:
    return clean_report(REPORT | fields, key=KEY)


@pytest.mark.parametrize("blank", [None, "", " \r\n\t", "\0\0", "\x1b[0m"])
@pytest.mark.parametrize("field", ["requestId", "exceptionClass", "stacktrace"])
def test_aut_01_a_required_field_with_nothing_in_it_is_named(field: str, blank: str | None) -> None:
    with pytest.raises(BlankField, match=f"^{field} is empty") as refused:
        clean(**{field: blank})
    assert refused.value.field == field


@pytest.mark.parametrize("blank", [None, "", " \r\n\t", "\0"])
@pytest.mark.parametrize(("field", "attribute"), OPTIONAL)
def test_aut_01_an_optional_field_with_nothing_in_it_is_null(field: str, attribute: str, blank: str | None) -> None:
    assert getattr(clean(**{field: blank}), attribute) is None


@pytest.mark.parametrize(("field", "attribute"), [one for one in OPTIONAL if one[0] != "sessionId"])
def test_aut_01_a_field_is_kept_as_it_is_but_for_its_margins(field: str, attribute: str) -> None:
    assert getattr(clean(**{field: " \r\n kept, 그대로 \t"}), attribute) == "kept, 그대로"


def test_aut_01_line_ends_become_one_kind_and_nul_goes() -> None:
    report = clean(exceptionMessage=" \0a\r\nb\rc\nd\u2028e\u2029f\x85g\0 \n")
    assert report.exception_message == "a\nb\nc\nd\ne\nf\ng"


def test_aut_01_a_header_ends_at_any_line_end() -> None:
    for end in ("\n", "\r", "\r\n", "\u2028", "\u2029", "\x85"):
        assert clean(exceptionMessage=f"Cookie: a=b{end}kept").exception_message == f"Cookie: {MASK}\nkept"


@pytest.mark.parametrize("inside", ["\0", "\x1b[31m", "\x1b[0;1m", "\x1b"])
def test_aut_01_what_is_removed_cannot_hide_a_secret(inside: str) -> None:
    report = clean(exceptionMessage=f"pass{inside}word={inside}hunt{inside}er2{inside} x")
    assert report.exception_message == f"password={MASK} x"


def test_aut_01_halves_of_surrogate_pairs_are_joined_or_replaced() -> None:
    report = clean(exceptionMessage="a\ud83d\udd11b\ud83dc\udd11")
    assert report.exception_message == "a🔑b\ufffdc\ufffd"


def test_aut_01_texts_are_cut_and_say_so() -> None:
    exact = clean(exceptionMessage="m" * MESSAGE_LENGTH_MAX, stacktrace="s" * STACKTRACE_LENGTH_MAX)
    assert (len(exact.exception_message or ""), len(exact.stacktrace), exact.truncated) == (1_000, 8_000, False)
    for field, kept in (("exceptionMessage", 1_000), ("rootCauseMessage", 1_000), ("stacktrace", 8_000)):
        report = clean(**{field: "m" * (kept + 1)})
        texts = (report.exception_message, report.root_cause_message, report.stacktrace)
        assert max(len(text or "") for text in texts) == kept
        assert report.truncated


def test_aut_01_a_mask_may_bring_a_text_below_the_cut() -> None:
    report = clean(exceptionMessage="password=" + "s" * 5_000)
    assert (report.exception_message, report.truncated) == (f"password={MASK}", False)


def test_aut_01_frames_are_read_before_the_cut() -> None:
    """A cut at 8,000 would lose the cause, which stands last, and with it the fault."""
    (golden,) = [one for one in GOLDEN if one.name == "sixty-two-frames-before-the-cause"]
    short, long = (
        clean_report(golden.fields(stacktrace=golden.stacktrace.replace("login failed", "m" * length)), key=KEY)
        for length in (1, 7_000)
    )
    assert not short.truncated
    assert long.truncated
    assert "PSQLException" not in long.stacktrace
    assert long.frames == short.frames
    assert stack_hash(long.frames) == stack_hash(short.frames)


@pytest.mark.parametrize(
    ("text", "length", "kept"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcde"),
        ("abc def", 4, "abc"),
        ("abe\u0301f", 3, "ab"),
        ("abe\u0301\u0308f", 4, "ab"),
        ("ab\U0001f468\u200d\U0001f469x", 4, "ab"),
        ("ab\u2764\ufe0fx", 3, "ab"),
        ("a=*** b", 4, "a="),
        ("a=*** b", 3, "a="),
        ("a=*** b", 5, "a=***"),
    ],
)
def test_aut_01_a_cut_parts_no_character_and_no_mask(text: str, length: int, kept: str) -> None:
    assert cut_text(text, length) == kept


def test_aut_01_a_flood_of_marks_upon_one_letter_is_cut_all_the_same() -> None:
    assert 960 <= len(cut_text("e" + "\u0301" * 5_000, 1_000)) <= 1_000


def test_aut_01_a_session_id_is_hashed_and_masked_wherever_else_it_stands() -> None:
    report = clean(sessionId=" s3ss10n-0001 ", exceptionMessage="of s3ss10n-0001.", requestUri="/a/s3ss10n-0001")
    hidden = keyed_hash("s3ss10n-0001", KEY)
    assert report.session_id == hidden
    assert report.exception_message == f"of {MASK}."
    assert report.request_uri == f"/a/{MASK}"
    assert "s3ss10n" not in json.dumps(asdict(report))
    assert keyed_hash("s3ss10n-0001", b"another key") != hidden
    assert clean(sessionId="s3ss10n-0002").session_id != hidden


def test_aut_01_a_short_session_id_spoils_no_other_text() -> None:
    assert clean(sessionId="at", exceptionMessage="at a").exception_message == "at a"


@pytest.mark.parametrize(("field", "attribute"), [("requestId", "request_id"), ("userId", "user_id")])
def test_aut_02_two_ids_that_look_like_secrets_stay_two(field: str, attribute: str) -> None:
    """Were both `password=***`, the second report would be taken for the first one again."""
    one, other = (getattr(clean(**{field: f"password=hunter{n}"}), attribute) for n in (2, 3))
    assert one == keyed_hash("password=hunter2", KEY)
    assert other == keyed_hash("password=hunter3", KEY)
    assert getattr(clean(**{field: "8a7c-01"}), attribute) == "8a7c-01"


@given(st.dictionaries(st.sampled_from(["stacktrace", *(name for name, _ in OPTIONAL)]), st.text(min_size=1)))
@settings(max_examples=60, deadline=None)
def test_aut_01_any_text_can_be_stored_or_is_blank(fields: dict[str, str]) -> None:
    try:
        report = clean(**fields)
    except BlankField as blank:
        assert blank.field == "stacktrace"
        return
    stored = json.dumps(asdict(report), ensure_ascii=False)
    assert "\\u0000" not in stored
    assert json.loads(stored.encode("utf-8")) == asdict(report)
