"""What is personal data and what only looks like it. Every number here is invented."""

import pytest

from runs.packs.compliance import pii

FULL_WIDTH = "900101-1234568".translate({ord(one): ord(one) + 0xFEE0 for one in "0123456789-"})

CASES = [
    # resident numbers: with a valid check digit; without, which since October 2020 may be somebody's; foreigners'
    ("kr_rrn", "주민번호 900101-1234568 입니다", [("900101-1234568", "checksum")]),
    ("kr_rrn", "900101-1234567", [("900101-1234567", "form")]),
    ("kr_rrn", "9001011234568", [("9001011234568", "checksum")]),
    ("kr_rrn", "9001011234567", []),
    ("kr_rrn", "2101013234567", [("2101013234567", "form")]),
    ("kr_rrn", "900101-5234561", [("900101-5234561", "checksum")]),
    ("kr_rrn", "901301-1234568", []),
    ("kr_rrn", "900230-1234568", []),
    ("kr_rrn", "1900101-1234568", []),
    ("kr_rrn", "900101-12345689", []),
    ("kr_rrn", FULL_WIDTH, [("900101-1234568", "checksum")]),
    ("kr_rrn", "900101 - 1234568", [("900101 - 1234568", "checksum")]),
    ("kr_rrn", "900101\u20131234568", [("900101-1234568", "checksum")]),
    # business numbers
    ("kr_business_number", "220-81-62517", [("220-81-62517", "checksum")]),
    ("kr_business_number", "220-81-62518", []),
    ("kr_business_number", "사업자등록번호: 2208162517", [("2208162517", "checksum")]),
    ("kr_business_number", "order 2208162517", []),
    ("kr_business_number", "000-00-00000", []),
    # cards
    ("card", "4111 1111 1111 1111", [("4111 1111 1111 1111", "checksum")]),
    ("card", "4111-1111-1111-1111 1234", [("4111-1111-1111-1111", "checksum")]),
    ("card", "378282246310005", [("378282246310005", "checksum")]),
    ("card", "3782 822463 10005", [("3782 822463 10005", "checksum")]),
    ("card", "4111111111111112", []),
    ("card", "1111111111111117", []),
    ("card", "0000000000000000", []),
    ("card", "14111111111111111", []),
    # phones
    ("phone", "010-1234-5678", [("010-1234-5678", "form")]),
    ("phone", "01012345678로 연락", [("01012345678", "form")]),
    ("phone", "(02) 312-3456", [("(02) 312-3456", "form")]),
    ("phone", "+82 10-1234-5678", [("+82 10-1234-5678", "form")]),
    ("phone", "+82-(0)10-1234-5678", [("+82-(0)10-1234-5678", "form")]),
    ("phone", "+44 20 7946 0958", [("+44 20 7946 0958", "form")]),
    ("phone", "+1 (415) 555-2671", [("+1 (415) 555-2671", "form")]),
    ("phone", "0212345678", []),
    ("phone", "+12 34", []),
    ("phone", "1+1=2", []),
    # addresses
    ("email", "hong@example.com으로", [("hong@example.com", "form")]),
    ("email", "hong@example.com900101", [("hong@example.com", "form")]),
    ("email", "<a.b+c@sub.example.co.kr>", [("a.b+c@sub.example.co.kr", "form")]),
    ("email", "홍길동@예시.한국", [("홍길동@예시.한국", "form")]),
    ("email", "a@b", []),
    ("email", "@handle and a @ b.com", []),
    ("email", "a..b@example.com", []),
    # accounts
    ("iban", "DE89 3704 0044 0532 0130 00", [("DE89 3704 0044 0532 0130 00", "checksum")]),
    ("iban", "DE89 3704 0044 0532 0130 00 BANK", [("DE89 3704 0044 0532 0130 00", "checksum")]),
    ("iban", "gb82west12345698765432", [("gb82west12345698765432", "checksum")]),
    ("iban", "DE88 3704 0044 0532 0130 00", []),
    ("iban", "XDE89370400440532013000", []),
    ("iban", "DE89370400440532013000X", []),
    ("iban", "ZZ89 3704 0044 0532 0130 00", []),
]


@pytest.mark.contract("DPP-64")
@pytest.mark.parametrize(("kind", "text", "wanted"), CASES)
def test_dpp_64_personal_data_is_told_from_what_looks_like_it(
    kind: str, text: str, wanted: list[tuple[str, str]]
) -> None:
    data = pii.folded_text(text)
    assert [(data[match.start : match.end].decode(), match.certainty) for match in pii.pii_spans(kind, data)] == wanted


def test_pack_compliance_folding_keeps_every_character_in_its_place() -> None:
    text = "가\uff21\u2014\u00a0\u3000\U0001f600\uff11"
    assert pii.folded_text(text).decode() == "가A-  \U0001f6001"
    assert len(pii.folded_text(text).decode()) == len(text)
