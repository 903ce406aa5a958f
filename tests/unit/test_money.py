"""Micros, their four decimals, and the minimum fee."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.money import (
    MAX_MICROS,
    AmountInvalid,
    capped_charge_micros,
    checked_credit_micros,
    checked_micros,
    format_entry_usd,
    format_exact_usd,
    format_usd,
    minimum_fee_micros,
    parse_usd,
    stored_micros,
)

pytestmark = pytest.mark.contract("DPP-50")


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("0.0001", 100),
        ("0.2500", 250_000),
        ("1.0000", 1_000_000),
        ("12345.6789", 12_345_678_900),
        ("9007199254.7409", 9_007_199_254_740_900),
    ],
)
def test_four_decimals_are_read_exactly(text: str, micros: int) -> None:
    assert parse_usd(text) == micros
    assert format_usd(micros) == text


@pytest.mark.parametrize(
    "wrong",
    [
        *("0.25", ".2500", "0.25000", "1", "", " 0.2500", "0.2500 ", "0.2500\n", "00.2500", "01.0000", "+0.2500"),
        *("-0.2500", "0.0000", "-0.0000", "NaN", "nan", "Infinity", "1e-4", "0x1.0000", "1_0.0000", "0,2500"),
        *("٠.٢٥٠٠", "０.２５００", "9007199254.7410", "9999999999.9999", "99999999999.0000", "1" * 5_000 + ".0000"),  # noqa: RUF001
        *(0.25, 1, 0, None, True, b"0.2500", Decimal("0.2500"), ["0.2500"]),
    ],
    ids=repr,
)
def test_anything_else_is_refused(wrong: object) -> None:
    with pytest.raises(AmountInvalid):
        parse_usd(wrong)


@given(st.integers(1, MAX_MICROS // 100))
def test_reading_undoes_writing(steps: int) -> None:
    assert parse_usd(format_usd(steps * 100)) == steps * 100


@given(st.integers(-MAX_MICROS, MAX_MICROS))
def test_writing_never_rounds_up(micros: int) -> None:
    shown = Decimal(format_usd(micros)) * 1_000_000
    assert shown <= micros < shown + 100
    entry = Decimal(format_entry_usd(micros)) * 1_000_000
    assert abs(entry) <= abs(micros) < abs(entry) + 100


@pytest.mark.contract("HRD-21")
@given(st.integers(-MAX_MICROS, MAX_MICROS))
def test_six_decimals_are_exact(micros: int) -> None:
    assert Decimal(format_exact_usd(micros)) * 1_000_000 == micros


@pytest.mark.parametrize("too_much", ["9007199254.7410", "99999999999.0000", "9" * 23 + ".0000"])
def test_an_amount_that_is_too_large_is_told_the_limits(too_much: str) -> None:
    with pytest.raises(AmountInvalid, match=r'lies between "0\.0001" and "9007199254\.7409"'):
        parse_usd(too_much)


@pytest.mark.parametrize(
    ("micros", "remains", "entry"),
    [
        (99, "0.0000", "0.0000"),
        (50_199, "0.0501", "0.0501"),
        (0, "0.0000", "0.0000"),
        (-1, "-0.0001", "0.0000"),
        (-100, "-0.0001", "-0.0001"),
        (-50_199, "-0.0502", "-0.0501"),
    ],
)
def test_what_remains_is_rounded_down_and_an_entry_cut(micros: int, remains: str, entry: str) -> None:
    assert format_usd(micros) == remains
    assert format_entry_usd(micros) == entry


@pytest.mark.parametrize(
    ("reserved", "fee"),
    [
        (1, 5_000),
        (249_999, 5_000),
        (250_000, 5_000),
        (250_049, 5_000),
        (250_050, 5_001),
        (1_000_049, 20_000),
        (1_000_050, 20_001),
        (4_999_999, 99_999),
        (5_000_000, 100_000),
        (MAX_MICROS, 100_000),
    ],
)
def test_the_minimum_fee_is_the_documents_in_integers(reserved: int, fee: int) -> None:
    assert minimum_fee_micros(reserved) == fee


@given(st.integers(1, MAX_MICROS))
def test_the_minimum_fee_equals_exact_decimals(reserved: int) -> None:
    floored = int(Decimal(reserved) * Decimal("0.02"))
    assert minimum_fee_micros(reserved) == min(max(5_000, floored), 100_000)


def test_only_the_charge_is_capped_by_the_hold() -> None:
    assert minimum_fee_micros(1_000) == 5_000
    assert capped_charge_micros(5_000, reserved_micros=1_000) == 1_000
    assert capped_charge_micros(999, reserved_micros=1_000) == 999


@pytest.mark.parametrize("wrong", [0, -1, MAX_MICROS + 1, 1.0, "1", True, None])
def test_a_wrong_amount_never_leaves_python(wrong: object) -> None:
    with pytest.raises(AmountInvalid):
        checked_micros(wrong)


def test_the_edges_of_an_amount() -> None:
    assert checked_micros(0, least=0) == 0
    assert checked_micros(MAX_MICROS) == MAX_MICROS
    assert checked_credit_micros(-MAX_MICROS) == -MAX_MICROS
    for wrong in (0, MAX_MICROS + 1, -MAX_MICROS - 1, True, 1.5):
        with pytest.raises(AmountInvalid):
            checked_credit_micros(wrong)


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        (None, None),
        ("", None),
        ("-", None),
        ("nan", None),
        ("1e3", None),
        ("0", 0),
        ("-5", -5),
        (str(MAX_MICROS), MAX_MICROS),
    ],
)
def test_dpp_55_a_balance_that_is_lost_or_no_number_is_not_zero(text: str | None, micros: int | None) -> None:
    assert stored_micros(text) == micros
