"""Finds personal data by form and check digits.

Where a number can be checked it is, and `certainty` says so. The Korean resident number is the exception: since October
2020 its last six digits are drawn at random, for newborns and for everyone whose number is changed, so that a number
without a valid check digit may be a person's. Written with its hyphen and with a real birth date it is a finding
either way (`form` instead of `checksum`). Thirteen digits in a row need the check digit, or a birth since that month.
"""

from collections.abc import Callable, Iterator
from datetime import date
from typing import Final, NamedTuple

from runs.packs.shared import regexes

CHECKSUM: Final = "checksum"
FORM: Final = "form"
RRN_IS_RANDOM_SINCE: Final = date(2020, 10, 1)
BUSINESS_WORD_BYTES: Final = 60
DIGITS: Final = frozenset(b"0123456789")
ALNUM: Final = DIGITS | frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")

_FOLD: Final = (
    {0xFF01 + n: 0x21 + n for n in range(0x5E)}
    | dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63"), "-")
    | dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000"), " ")
)


class Match(NamedTuple):
    start: int
    end: int
    certainty: str


def folded_text(text: str) -> bytes:
    """Full-width letters and digits, dashes and spaces as their ASCII ones; each stays one character."""
    return text.translate(_FOLD).encode()


def _digits(piece: bytes) -> list[int]:
    return [byte - 48 for byte in piece if byte in DIGITS]


def _stands_alone(data: bytes, start: int, end: int, neighbours: frozenset[int] = DIGITS) -> bool:
    before = start == 0 or data[start - 1] not in neighbours
    return before and (end == len(data) or data[end] not in neighbours)


def _pii_finder(pattern: str, judge: Callable[[bytes, int, int], str | None]) -> Callable[[bytes], Iterator[Match]]:
    """Candidates by a pattern; `judge` answers how certain one is, or None."""
    compiled = regexes.compiled_regex(pattern)

    def find(data: bytes) -> Iterator[Match]:
        for candidate in compiled.finditer(data):
            start, end = candidate.span()
            certainty = judge(data, start, end)
            if certainty is not None:
                yield Match(start, end, certainty)

    return find


# Resident and foreigner registration numbers


def _born(digits: list[int]) -> date | None:
    century = {1: 1900, 2: 1900, 5: 1900, 6: 1900, 3: 2000, 4: 2000, 7: 2000, 8: 2000, 9: 1800, 0: 1800}[digits[6]]
    year, month, day = (digits[i] * 10 + digits[i + 1] for i in (0, 2, 4))
    try:
        return date(century + year, month, day)
    except ValueError:
        return None


def _rrn_checks(digits: list[int]) -> bool:
    weights = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
    left = 11 - sum(weight * digit for weight, digit in zip(weights, digits, strict=False)) % 11
    of_foreigners = 2 if digits[6] in (5, 6, 7, 8) else 0
    return (left + of_foreigners) % 10 == digits[12]


def _rrn(data: bytes, start: int, end: int) -> str | None:
    digits = _digits(data[start:end])
    born = _born(digits)
    if born is None or not _stands_alone(data, start, end):
        return None
    if _rrn_checks(digits):
        return CHECKSUM
    is_bare = end - start == len(digits)
    return None if is_bare and born < RRN_IS_RANDOM_SINCE else FORM


# Business registration numbers


def _business_checks(digits: list[int]) -> bool:
    weights = (1, 3, 7, 1, 3, 7, 1, 3, 5)
    total = sum(weight * digit for weight, digit in zip(weights, digits, strict=False)) + digits[8] * 5 // 10
    return (10 - total % 10) % 10 == digits[9]


def _business_number(data: bytes, start: int, end: int) -> str | None:
    """Ten digits in a row pass the check once in ten times by chance: they need the word before them."""
    digits = _digits(data[start:end])
    if not _stands_alone(data, start, end) or len(set(digits)) == 1 or not _business_checks(digits):
        return None
    before = data[max(0, start - BUSINESS_WORD_BYTES) : start].lower()
    is_bare = end - start == len(digits)
    return None if is_bare and "사업자".encode() not in before and b"business" not in before else CHECKSUM


# Cards


def _luhn(digits: list[int]) -> bool:
    doubled = [digit if place % 2 == 0 else digit * 2 - 9 * (digit > 4) for place, digit in enumerate(digits[::-1])]
    return sum(doubled) % 10 == 0


def _card(data: bytes, start: int, end: int) -> str | None:
    """The lengths that each first digit has: Visa, Mastercard, Amex and Diners, UnionPay and Discover, Korea's 9."""
    digits = _digits(data[start:end])
    lengths = {2: {16}, 3: {14, 15, 16}, 4: {13, 16, 19}, 5: {16}, 6: {16, 17, 18, 19}, 9: {16}}
    fits = len(digits) in lengths.get(digits[0], set()) and len(set(digits)) > 1
    return CHECKSUM if fits and _stands_alone(data, start, end) and _luhn(digits) else None


# Phones


def _kr_phone(data: bytes, start: int, end: int) -> str | None:
    """A landline without any separator is any number that begins with 0."""
    piece = data[start:end]
    is_bare = piece.isdigit() and not piece.startswith(b"01")
    return None if is_bare or not _stands_alone(data, start, end, DIGITS | {ord("+")}) else FORM


def _phone_abroad(data: bytes, start: int, end: int) -> str | None:
    return FORM if 8 <= len(_digits(data[start:end])) <= 15 and _stands_alone(data, start, end, ALNUM) else None


_KR_PHONES: Final = _pii_finder(
    r"(?:\+ ?82[-. ]?(?:\(0\))?0?|\(?0)(?:1[016789]|2|3[1-3]|4[1-4]|5[1-5]|6[1-4]|70|50[2-8])\)?"
    r"[-. ]{0,2}[0-9]{3,4}[-. ]?[0-9]{4}",
    _kr_phone,
)
_PHONES_ABROAD: Final = _pii_finder(r"\+[1-9][0-9]{0,2}(?:[-. ()]{0,2}[0-9]{1,4}){2,8}", _phone_abroad)


def _phones(data: bytes) -> Iterator[Match]:
    """A Korean number with its country code is both."""
    korean = list(_KR_PHONES(data))
    starts = {match.start for match in korean}
    yield from korean
    yield from (match for match in _PHONES_ABROAD(data) if match.start not in starts)


# Addresses


def _email(data: bytes, start: int, end: int) -> str | None:
    """Whatever follows: a digit or a Korean particle often does, without a space."""
    local, _, domain = data[start:end].rpartition(b"@")
    return FORM if len(local) <= 64 and len(domain) <= 253 and b".." not in local + domain else None


# Accounts

_IBAN_COUNTRIES: Final = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 "
    "EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 "
    "KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 "
    "PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 "
    "UA29 VA22 VG24 XK20 YE30"
)
_IBAN_LENGTHS: Final = {one[:2]: int(one[2:]) for one in _IBAN_COUNTRIES.split()}
_IBAN_HEAD: Final = regexes.compiled_regex(r"[A-Za-z]{2}[0-9]{2}")


def _ibans(data: bytes) -> Iterator[Match]:
    """From its head, as many letters and digits as the country's have: groups of text may follow after a space."""
    for head in _IBAN_HEAD.finditer(data):
        start = head.start()
        length = _IBAN_LENGTHS.get(data[start : start + 2].decode().upper())
        if length is None or (start > 0 and data[start - 1] in ALNUM):
            continue
        end, kept = start, bytearray()
        while end < len(data) and len(kept) < length and (data[end] in ALNUM or data[end] == 0x20):
            kept += data[end : end + 1].strip()
            end += 1
        is_whole = len(kept) == length and (end == len(data) or data[end] not in ALNUM)
        if is_whole and _mod_97(bytes(kept).upper()) == 1:
            yield Match(start, end, CHECKSUM)


def _mod_97(number: bytes) -> int:
    return int("".join(str(int(chr(byte), 36)) for byte in number[4:] + number[:4])) % 97


FINDERS: Final[dict[str, Callable[[bytes], Iterator[Match]]]] = {
    "kr_rrn": _pii_finder(r"[0-9]{6}(?:[0-9]{7}| ?- ?[0-9]{7})", _rrn),
    "kr_business_number": _pii_finder(r"[0-9]{3}-[0-9]{2}-[0-9]{5}|[0-9]{10}", _business_number),
    "card": _pii_finder(
        r"[0-9]{13,19}|[0-9]{4}-[0-9]{4}-[0-9]{4}-[0-9]{4}|[0-9]{4} [0-9]{4} [0-9]{4} [0-9]{4}"
        r"|[0-9]{4}[ -][0-9]{6}[ -][0-9]{4,5}",
        _card,
    ),
    "phone": _phones,
    "email": _pii_finder(
        r"[A-Za-z0-9\p{Hangul}._%+'&*/=?^{|}~!#$-]+@(?:[A-Za-z0-9\p{Hangul}-]{1,63}\.)+"
        r"(?:xn--[a-z0-9-]{2,59}|[A-Za-z]{2,24}|한국)",
        _email,
    ),
    "iban": _ibans,
}


def pii_spans(kind: str, data: bytes) -> list[Match]:
    return sorted(FINDERS[kind](data))
