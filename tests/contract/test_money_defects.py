"""The ways in which the document's scripts lose or mint money: shown on their own text, and gone in ours.

`literal/` keeps the specified reserve and settle letter by letter (the refund has no text; its file says so).
Each test runs one story on both: the literal script must show the defect, ours must not.
docs/money.md lists them in this order.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from budget.money import MAX_MICROS
from budget.redis import keys
from tests.gear.reference.money import (
    OTHER,
    RUN,
    SCRIPTS,
    TENANT,
    ScriptSide,
    balance_of,
    open_tenant,
    refund,
    reserve,
    settle,
)

pytestmark = pytest.mark.contract("DPP-52", "DPP-53")

LITERAL = {
    name: Path(__file__).parent.joinpath("literal", f"{name}.lua").read_text(encoding="utf-8")
    for name in ("reserve", "settle", "refund_full")
}


@pytest.fixture
def literal(valkey: redis.Redis) -> ScriptSide:
    return ScriptSide(valkey, LITERAL)


@pytest.fixture
def ours(valkey: redis.Redis) -> ScriptSide:
    return ScriptSide(valkey)


def fresh(side: ScriptSide, balance: int = 1_000_000) -> None:
    side.client.flushall()
    open_tenant(side, balance=balance)
    open_tenant(side, OTHER)


def on_each(literal: ScriptSide, ours: ScriptSide, story: Callable[[ScriptSide], object]) -> tuple[object, object]:
    """What the story comes to on the document's scripts, and on ours."""
    ended = []
    for side in (literal, ours):
        fresh(side)
        ended.append(story(side))
    return ended[0], ended[1]


def stored(side: ScriptSide, tenant: str = TENANT) -> object:
    return side.client.get(keys.balance_key(tenant))


def test_defect_1_large_balances_lose_their_last_digits(literal: ScriptSide, ours: ScriptSide) -> None:
    def story(side: ScriptSide) -> object:
        side.put(keys.balance_key(TENANT), "1234567890123456")
        reserve(side, 1)
        return stored(side)

    assert on_each(literal, ours, story) == ("1.2345678901235e+15", "1234567890123455")


def test_defect_2_a_negative_amount_mints_money(literal: ScriptSide, ours: ScriptSide) -> None:
    def reserving(side: ScriptSide) -> object:
        reserve(side, -500_000)
        return stored(side)

    def settling(side: ScriptSide) -> object:
        reserve(side, 250_000)
        settle(side, -500_000)
        return stored(side)

    assert on_each(literal, ours, reserving) == ("1500000", "1000000")
    assert on_each(literal, ours, settling) == ("1500000", "750000")


def test_defect_3_not_a_number_makes_every_later_reserve_pass(literal: ScriptSide, ours: ScriptSide) -> None:
    def story(side: ScriptSide) -> object:
        reserve(side, "nan")
        return reserve(side, MAX_MICROS, run="another")[0]

    assert on_each(literal, ours, story) == ("OK", "ERR_INSUFFICIENT")


def test_defect_4_one_tenants_hold_is_paid_out_to_another(literal: ScriptSide, ours: ScriptSide) -> None:
    def story(side: ScriptSide) -> object:
        reserve(side, 1_000_000)
        settle(side, 0, tenant=OTHER)
        return stored(side, OTHER)

    assert on_each(literal, ours, story) == ("2000000", "1000000")


def test_defect_5_the_hold_is_gone_with_its_key_after_an_hour(literal: ScriptSide, ours: ScriptSide) -> None:
    def story(side: ScriptSide) -> object:
        reserve(side, 1_000_000)
        side.client.expire(keys.reserve_key(RUN), 3_600)  # as the document asks of the caller
        side.pass_seconds(3_600)
        refund(side)
        return stored(side)

    assert on_each(literal, ours, story) == ("0", "1000000")


def test_defect_6_a_lost_balance_counts_as_zero(literal: ScriptSide, ours: ScriptSide) -> None:
    def story(side: ScriptSide) -> object:
        reserve(side, 250_000)
        side.drop(keys.balance_key(TENANT))
        settle(side, 50_000)
        return stored(side)

    assert on_each(literal, ours, story) == ("200000", None)


def test_defect_7_a_settle_whose_answer_was_lost_can_never_be_priced(literal: ScriptSide, ours: ScriptSide) -> None:
    def story(side: ScriptSide) -> object:
        reserve(side, 250_000)
        settle(side, 50_000)
        return settle(side, 50_000)[:2]

    assert on_each(literal, ours, story) == (["ERR_NO_RESERVE"], ["OK", "50000"])


def test_defect_8_a_reserve_that_comes_after_the_refund_is_never_given_back(
    literal: ScriptSide, ours: ScriptSide
) -> None:
    def story(side: ScriptSide) -> object:
        refund(side)
        reserve(side, 1_000_000)
        return stored(side)

    assert on_each(literal, ours, story) == ("0", "1000000")


def test_defect_9_a_run_is_held_again_after_it_was_settled(literal: ScriptSide, ours: ScriptSide) -> None:
    def story(side: ScriptSide) -> object:
        reserve(side, 250_000)
        settle(side, 250_000)
        reserve(side, 250_000)
        settle(side, 250_000)
        return stored(side)

    assert on_each(literal, ours, story) == ("500000", "750000")


def test_defect_10_an_amount_need_not_be_whole(literal: ScriptSide, ours: ScriptSide) -> None:
    def story(side: ScriptSide) -> object:
        reserve(side, "0.5")
        return stored(side)

    assert on_each(literal, ours, story) == ("999999.5", "1000000")


def test_defect_11_a_crash_before_expire_leaves_a_key_for_ever(literal: ScriptSide, ours: ScriptSide) -> None:
    def story(side: ScriptSide) -> object:
        reserve(side, 1)
        return side.client.ttl(keys.reserve_key(RUN)) > 0

    assert on_each(literal, ours, story) == (False, True)


def test_the_literal_scripts_work_where_the_document_looked(literal: ScriptSide) -> None:
    """They are kept to the letter: on the plain path they answer as specified."""
    fresh(literal)
    assert reserve(literal, 250_000) == ["OK", "750000"]
    assert reserve(literal, 250_000) == ["ERR_ALREADY_RESERVED"]
    assert reserve(literal, 1_000_000, run="another") == ["ERR_INSUFFICIENT", "750000"]
    assert settle(literal, 50_000) == ["OK", "50000", "200000", "950000"]
    assert balance_of(literal) == 950_000


@pytest.mark.parametrize("name", ["reserve", "settle", "refund_full"])
def test_ours_answers_the_documents_words_first(literal: ScriptSide, ours: ScriptSide, name: str) -> None:
    def story(side: ScriptSide) -> object:
        answers = [reserve(side, 250_000)]
        if name != "reserve":
            answers.append(settle(side, 50_000) if name == "settle" else refund(side))
        return answers

    documented, extended = on_each(literal, ours, story)
    assert isinstance(documented, list)
    assert isinstance(extended, list)
    assert [answer[: len(said)] for answer, said in zip(extended, documented, strict=True)] == documented


def test_ours_takes_the_documents_keys_and_arguments_first() -> None:
    for name, locked in (
        ("reserve", ("tenant_id   2 reserved_usd_micros   3 created_at_ms", "as documented")),
        ("settle", ("1 charge_usd_micros", "as documented")),
        ("refund_full", ("1 budget:{tenant}:balance_usd_micros   2 reserve:{run}", "as documented")),
    ):
        assert all(part in SCRIPTS[name].text for part in locked)
