"""Money is whole micros of a dollar (1 USD = 1,000,000). Nothing here or above it ever meets a float.

At the edge an amount is a string of exactly four decimals. Writing one never rounds up.
"""

import re
from typing import Final

from dpp_project.constants import MINIMUM_FEE_CAP_MICROS, MINIMUM_FEE_FLOOR_MICROS, MINIMUM_FEE_PERCENT

MICROS_PER_USD: Final = 1_000_000
MICROS_PER_STEP: Final = 100  # the fourth decimal
MAX_MICROS: Final = 9_007_199_254_740_991  # 2**53 - 1: the last integer a Lua number holds exactly

USD_PATTERN: Final = r"^(0|[1-9][0-9]{0,9})\.[0-9]{4}$"
"""An amount as documents describe it; `parse_usd` also knows the limits."""

_FOUR_DECIMALS = re.compile(r"(0|[1-9][0-9]{0,29})\.([0-9]{4})", re.ASCII)  # more digits than fit: the limits are named


class AmountInvalid(ValueError):  # noqa: N818  a refusal is named for what was refused
    """The amount is refused; the message says what one looks like."""


def checked_micros(value: object, *, least: int = 1) -> int:
    """An amount as it may reach a script or the ledger: an int between `least` and the limit."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise AmountInvalid("an amount is a whole number of micros")
    if not least <= value <= MAX_MICROS:
        raise AmountInvalid(f"an amount lies between {least} and {MAX_MICROS} micros")
    return value


def checked_credit_micros(value: object) -> int:
    """A signed amount that changes a balance: never zero, its size within the limit."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise AmountInvalid("an amount is a whole number of micros")
    if value == 0 or abs(value) > MAX_MICROS:
        raise AmountInvalid(f"an amount is not zero and at most {MAX_MICROS} micros either way")
    return value


def stored_micros(text: str | None) -> int | None:
    """A balance as Redis has it, which may be below zero; None where it is lost, or is no number."""
    return int(text) if text is not None and text.removeprefix("-").isdecimal() else None


def parse_usd(text: object, *, least: int = 1) -> int:
    """Micros of `"0.2500"`: a string, exactly four decimals, above zero unless `least` is 0, within the limit."""
    found = _FOUR_DECIMALS.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise AmountInvalid('an amount is a string with exactly four decimals, such as "0.2500"')
    micros = int(found[1]) * MICROS_PER_USD + int(found[2]) * MICROS_PER_STEP
    if not least <= micros <= MAX_MICROS:
        lowest = "0.0001" if least else "0.0000"
        raise AmountInvalid(f'an amount lies between "{lowest}" and "{format_usd(MAX_MICROS)}"')
    return micros


def format_usd(micros: int) -> str:
    """Four decimals, rounded down: a balance never shows more than it holds, a debt never less than it is."""
    steps = micros // MICROS_PER_STEP
    sign, size = ("-", -steps) if steps < 0 else ("", steps)
    dollars, rest = divmod(size, MICROS_PER_USD // MICROS_PER_STEP)
    return f"{sign}{dollars}.{rest:04d}"


def format_exact_usd(micros: int) -> str:
    """All six decimals, for statements and the console: what is shown adds up to what was taken."""
    dollars, rest = divmod(abs(micros), MICROS_PER_USD)
    return f"{'-' if micros < 0 else ''}{dollars}.{rest:06d}"


def format_plain_usd(micros: int) -> str:
    """Exact, and no longer than it must be: two decimals, and more only where there are cents of a cent."""
    whole = format_exact_usd(micros)
    shortest = whole.rstrip("0")
    return whole[: max(len(shortest), whole.index(".") + 3)]


def format_entry_usd(micros: int) -> str:
    """A signed entry in four decimals, cut towards zero: neither a credit nor a charge shows more than it was."""
    size = format_usd(abs(micros))
    return f"-{size}" if micros <= -MICROS_PER_STEP else size


FAILURE_FEE_RULE: Final = " ".join(
    (
        f"A run that fails at work costs {MINIMUM_FEE_PERCENT} % of its hold,",
        f"at least {format_usd(MINIMUM_FEE_FLOOR_MICROS)} and at most {format_usd(MINIMUM_FEE_CAP_MICROS)} USD,",
        "and never more than the hold.",
    )
)


def minimum_fee_micros(reserved_micros: int) -> int:
    """What a failed run costs before its hold caps it (DPP-35): 2 % of the hold, from 5,000 to 100,000."""
    percent = reserved_micros * MINIMUM_FEE_PERCENT // 100
    return min(max(MINIMUM_FEE_FLOOR_MICROS, percent), MINIMUM_FEE_CAP_MICROS)


def capped_charge_micros(wanted_micros: int, *, reserved_micros: int) -> int:
    """What is taken: what was wanted, never more than was held."""
    return min(wanted_micros, reserved_micros)
