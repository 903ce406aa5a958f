"""A report before anything of it is stored: the order of its steps, its cuts, its hashes."""

import pytest

from ops.auth_errors.reports.cleaning import BlankField, CleanReport, clean_report

pytestmark = pytest.mark.contract("AUT-01")

KEY = b"a key for the hashes"
REPORT: dict[str, str | None] = {
    "requestId": "r-1",
    "exceptionClass": "a.B",
    "stacktrace": "a.B: c\n\tat a.B.d(B.java:1)",
}


def clean(**fields: str | None) -> CleanReport:
    return clean_report(REPORT | fields, key=KEY)


@pytest.mark.parametrize("blank", [None, "", " \r\n\t", "\0\0", "\x1b[0m"])
@pytest.mark.parametrize("field", ["requestId", "exceptionClass", "stacktrace"])
def test_aut_01_a_required_field_with_nothing_in_it_is_named(field: str, blank: str | None) -> None:
    with pytest.raises(BlankField, match=f"^{field} is empty") as refused:
        clean(**{field: blank})
    assert refused.value.field == field


def test_aut_01_line_ends_become_one_kind_and_nul_goes() -> None:
    report = clean(exceptionMessage=" \0a\r\nb\rc\nd\u2028e\u2029f\x85g\0 \n")
    assert report.exception_message == "a\nb\nc\nd\ne\nf\ng"
