"""One suite over the Lua scripts and the pure model: the documented answers, ours after them, and every refusal.

Each refused case also shows that nothing changed: the state before equals the state after.
"""

import re
from collections.abc import Callable, Sequence

import pytest
import redis

from budget.money import MAX_MICROS
from budget.redis import keys
from budget.redis.items import RebuildItem
from dpp_project import constants
from tests.gear.reference.money import (
    ENTRY,
    EPOCH,
    OTHER,
    RUN,
    SCRIPTS,
    TENANT,
    ScriptSide,
    Side,
    balance_of,
    credit,
    credit_keys,
    open_tenant,
    rebuild,
    rebuild_keys,
    refund,
    refused,
    reserve,
    run_keys,
    settle,
)

pytestmark = pytest.mark.contract("DPP-51", "DPP-52", "DPP-53")

WRONG_AMOUNTS = [
    *(
        "0",
        "-1",
        "-250000",
        "+1",
        "01",
        "1.0",
        "0.5",
        "1e3",
        "0x10",
        " 1",
        "1 ",
        "1\n",
        "nan",
        "-nan",
        "inf",
        "",
        "one",
    ),
    *("9007199254740992", "9007199254740993", "9999999999999999", "10000000000000000", "1" * 400, "１"),  # noqa: RUF001
]


def held_run(side: Side, micros: int = 250_000) -> None:
    assert reserve(side, micros) == ["OK", str(1_000_000 - micros)]


# Reserve


def test_reserve_takes_the_hold_off_the_balance(side: Side) -> None:
    assert reserve(side, 250_000, created="1772366400000") == ["OK", "750000"]
    assert side.state() == {
        keys.EPOCH: (EPOCH, None),
        keys.balance_key(TENANT): ("750000", None),
        keys.seq_key(TENANT): ("1", None),
        keys.holds_key(TENANT): ({RUN: "250000"}, None),
        keys.reserve_key(RUN): (
            {"tenant_id": TENANT, "reserved_usd_micros": "250000", "created_at_ms": "1772366400000"},
            constants.RESERVATION_TTL_SECONDS,
        ),
    }


def test_reserve_may_take_the_whole_balance_and_not_one_micro_more(side: Side) -> None:
    assert refused(side, lambda: reserve(side, 1_000_001)) == ["ERR_INSUFFICIENT", "1000000"]
    assert reserve(side, 1_000_000) == ["OK", "0"]


def test_reserve_refuses_on_a_debt(side: Side) -> None:
    side.put(keys.balance_key(TENANT), "-5")
    assert refused(side, lambda: reserve(side, 1)) == ["ERR_INSUFFICIENT", "-5"]


def test_reserve_twice_answers_what_is_held(side: Side) -> None:
    held_run(side)
    assert refused(side, lambda: reserve(side, 1)) == ["ERR_ALREADY_RESERVED", "250000"]


def test_a_hold_outlives_its_reserve_key(side: Side) -> None:
    held_run(side)
    side.pass_seconds(constants.RESERVATION_TTL_SECONDS + 1)
    assert keys.reserve_key(RUN) not in side.state()
    assert refused(side, lambda: reserve(side, 250_000)) == ["ERR_ALREADY_RESERVED", "250000"]
    assert settle(side, 50_000) == ["OK", "50000", "200000", "950000", "first"]


def test_reserve_sees_that_the_holds_were_lost(side: Side) -> None:
    held_run(side)
    side.drop(keys.holds_key(TENANT))
    assert refused(side, lambda: reserve(side, 250_000)) == ["ERR_ALREADY_RESERVED", "0"]


def test_dpp_53_a_late_reserve_meets_the_tombstone(side: Side) -> None:
    assert refund(side) == ["OK", "0", "1000000", "0", "tombstone"]
    assert refused(side, lambda: reserve(side, 250_000)) == ["ERR_CLOSED", "0"]
    assert side.state()[keys.receipt_key(RUN)][1] == 86_400


def test_reserve_after_a_settle_is_refused_with_the_charge(side: Side) -> None:
    held_run(side)
    settle(side, 50_000)
    assert refused(side, lambda: reserve(side, 250_000)) == ["ERR_CLOSED", "50000"]


# Settle


def test_settle_takes_the_charge_and_gives_the_rest_back(side: Side) -> None:
    held_run(side)
    assert settle(side, 50_000) == ["OK", "50000", "200000", "950000", "first"]
    assert side.state() == {
        keys.EPOCH: (EPOCH, None),
        keys.balance_key(TENANT): ("950000", None),
        keys.seq_key(TENANT): ("2", None),
        keys.receipt_key(RUN): (f"50000 200000 950000 {TENANT}", 86_400),
        keys.EVIDENCE: ([f"end:{RUN}"], None),
    }


@pytest.mark.parametrize(
    ("charge", "answer"),
    [
        ("0", ["OK", "0", "250000", "1000000", "first"]),
        ("250000", ["OK", "250000", "0", "750000", "first"]),
        ("250001", ["OK", "250000", "0", "750000", "first"]),
        (str(MAX_MICROS), ["OK", "250000", "0", "750000", "first"]),
    ],
)
def test_settle_charges_no_more_than_was_held(side: Side, charge: str, answer: list[str]) -> None:
    held_run(side)
    assert settle(side, charge) == answer


def test_dpp_53_settle_again_answers_the_first_result(side: Side) -> None:
    held_run(side)
    settle(side, 50_000)
    reserve(side, 10_000, run="another")
    assert refused(side, lambda: settle(side, 250_000)) == ["OK", "50000", "200000", "950000", "again"]


def test_settle_after_a_refund_charges_nothing(side: Side) -> None:
    held_run(side)
    refund(side)
    assert refused(side, lambda: settle(side, 50_000)) == ["OK", "0", "250000", "1000000", "again"]


def test_settle_without_a_hold_is_refused(side: Side) -> None:
    assert refused(side, lambda: settle(side, 50_000)) == ["ERR_NO_RESERVE"]


# Refund


def test_refund_gives_the_whole_hold_back(side: Side) -> None:
    held_run(side)
    assert refund(side) == ["OK", "250000", "1000000", "0", "first"]
    assert keys.reserve_key(RUN) not in side.state()
    assert keys.holds_key(TENANT) not in side.state()


def test_dpp_53_refund_again_answers_the_first_result(side: Side) -> None:
    held_run(side)
    refund(side)
    assert refused(side, lambda: refund(side)) == ["OK", "250000", "1000000", "0", "again"]


def test_refund_after_a_settle_tells_the_charge(side: Side) -> None:
    held_run(side)
    settle(side, 50_000)
    assert refused(side, lambda: refund(side)) == ["OK", "200000", "950000", "50000", "again"]


def test_refund_sees_that_the_holds_were_lost(side: Side) -> None:
    held_run(side)
    side.drop(keys.holds_key(TENANT))
    assert refused(side, lambda: refund(side)) == ["ERR_NO_RESERVE"]


@pytest.mark.contract("HRD-04")
def test_hrd_04_refund_of_a_run_that_was_held_leaves_no_tombstone(side: Side) -> None:
    held_run(side)
    side.drop(keys.holds_key(TENANT))
    side.drop(keys.reserve_key(RUN))
    assert refused(side, lambda: refund(side, was_held=True)) == ["ERR_NO_RESERVE"]


@pytest.mark.contract("HRD-04")
def test_hrd_04_a_tombstone_is_no_end_of_a_run_that_was_held(side: Side) -> None:
    assert refund(side) == ["OK", "0", "1000000", "0", "tombstone"]
    assert refused(side, lambda: refund(side, was_held=True)) == ["ERR_NO_RESERVE"]
    assert refused(side, lambda: refund(side)) == ["OK", "0", "1000000", "0", "again"]


@pytest.mark.contract("HRD-04")
def test_hrd_04_a_run_that_was_held_is_refunded_once(side: Side) -> None:
    held_run(side)
    assert refund(side, was_held=True) == ["OK", "250000", "1000000", "0", "first"]
    assert refused(side, lambda: refund(side, was_held=True)) == ["OK", "250000", "1000000", "0", "again"]


# A hold that somebody else wrote over


@pytest.mark.contract("HRD-04")
@pytest.mark.parametrize(
    "wrong",
    ["abc", "", "-250000", "1.5", "1e3", "0x10", " 1", "1\n", "nan", "9007199254740992", "0" * 17, "9" * 400, None],
    ids=repr,
)
def test_hrd_04_a_hold_that_is_no_amount_is_lost_to_every_script(side: Side, wrong: str | None) -> None:
    """None: the whole key is no hash. Nobody is told an amount, and no tombstone ends what may have been held."""
    held_run(side)
    side.put(keys.holds_key(TENANT), "x" if wrong is None else {RUN: wrong})
    assert refused(side, lambda: reserve(side, 250_000)) == ["ERR_ALREADY_RESERVED", "0"]
    side.drop(keys.reserve_key(RUN))
    assert refused(side, lambda: reserve(side, 250_000)) == ["ERR_ALREADY_RESERVED", "0"]
    assert refused(side, lambda: settle(side, 50_000)) == ["ERR_NO_RESERVE"]
    assert refused(side, lambda: refund(side)) == ["ERR_NO_RESERVE"]
    assert refused(side, lambda: refund(side, was_held=True)) == ["ERR_NO_RESERVE"]


# Evidence


@pytest.mark.contract("HRD-06")
def test_hrd_06_what_ends_a_claimed_run_or_enters_a_credit_leaves_evidence_once(side: Side) -> None:
    held_run(side)
    reserve(side, 1, run="another")
    assert keys.EVIDENCE not in side.state(), "a row at money NONE may be dropped"
    settle(side, 50_000)
    refund(side, run="another", was_held=True)
    credit(side, 5)
    told = [f"entry:{ENTRY}", "end:another", f"end:{RUN}"]
    assert side.state()[keys.EVIDENCE] == (told, None)
    refused(side, lambda: settle(side, 50_000))
    refused(side, lambda: refund(side, run="another", was_held=True))
    refused(side, lambda: credit(side, 5))


@pytest.mark.contract("HRD-06")
def test_hrd_06_a_refund_of_a_row_that_may_have_been_dropped_leaves_none(side: Side) -> None:
    held_run(side)
    assert refund(side) == ["OK", "250000", "1000000", "0", "first"]
    assert refund(side, run="never-held") == ["OK", "0", "1000000", "0", "tombstone"]
    assert keys.EVIDENCE not in side.state()


@pytest.mark.contract("HRD-06")
@pytest.mark.parametrize(
    "leave",
    [lambda side: settle(side, 5), lambda side: refund(side, was_held=True), lambda side: credit(side, 5)],
    ids=["settle", "refund", "credit"],
)
def test_hrd_06_evidence_is_bounded(side: Side, leave: Callable[[Side], list[str]]) -> None:
    held_run(side)
    side.put(keys.EVIDENCE, [f"run:{number}" for number in range(keys.EVIDENCE_CUT_ABOVE)])
    leave(side)
    told = side.state()[keys.EVIDENCE][0]
    assert isinstance(told, list)
    assert (len(told), told[1], told[-1]) == (keys.EVIDENCE_MAX, "run:0", "run:998")


# Credit


def test_credit_reaches_the_balance_once(side: Side) -> None:
    assert credit(side, 500_000) == ["OK", "1500000", "first"]
    reserve(side, 100_000)
    assert refused(side, lambda: credit(side, 500_000)) == ["OK", "1500000", "again"]
    assert side.state()[keys.credit_key(ENTRY)] == (f"500000 1500000 {TENANT}", None)


def test_credit_may_take_away_more_than_is_there(side: Side) -> None:
    assert credit(side, -1_000_001) == ["OK", "-1", "first"]


def test_credit_stops_at_the_limit_either_way(side: Side) -> None:
    assert refused(side, lambda: credit(side, MAX_MICROS)) == ["ERR_LIMIT", "1000000"]
    assert credit(side, MAX_MICROS - 1_000_000) == ["OK", str(MAX_MICROS), "first"]
    side.put(keys.balance_key(TENANT), "-1")
    assert refused(side, lambda: credit(side, -MAX_MICROS, entry="another")) == ["ERR_LIMIT", "-1"]


def test_credit_of_another_epoch_is_refused(side: Side) -> None:
    before_the_rebuild = EPOCH
    side.put(keys.EPOCH, "a" * 40 + ".second")
    answer = refused(side, lambda: credit(side, 500_000, epoch=before_the_rebuild))
    assert answer == ["ERR_UNAVAILABLE", "epoch"]


# What every money script refuses

ASKS: dict[str, Callable[..., list[str]]] = {
    "reserve": lambda side, **more: reserve(side, 1_000, **more),
    "settle": lambda side, **more: settle(side, 1_000, **more),
    "refund": refund,
}


@pytest.mark.parametrize("ask", [*ASKS.values(), lambda side: credit(side, 1)], ids=[*ASKS, "credit"])
@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (keys.EPOCH, None, "epoch"),
        (keys.EPOCH, "closed." + "a" * 40 + ".x", "epoch"),
        (keys.EPOCH, "b" * 40 + ".first", "epoch"),
        (keys.gate_key(TENANT), "closed.x", "gate"),
        (keys.balance_key(TENANT), None, "balance"),
        (keys.balance_key(TENANT), "nan", "balance"),
        (keys.balance_key(TENANT), "1e+14", "balance"),
        (keys.balance_key(TENANT), "", "balance"),
        (keys.balance_key(TENANT), "9" * 19, "balance"),
    ],
)
def test_dpp_55_no_money_moves_behind_a_closed_gate_or_without_a_balance(
    side: Side, ask: Callable[[Side], list[str]], key: str, value: str | None, why: str
) -> None:
    held_run(side)
    side.drop(key) if value is None else side.put(key, value)
    assert refused(side, lambda: ask(side)) == ["ERR_UNAVAILABLE", why]


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
@pytest.mark.parametrize("ended", ["held", "settled", "refunded"])
def test_dpp_52_one_tenants_run_is_not_anothers(side: Side, ask: Callable[..., list[str]], ended: str) -> None:
    open_tenant(side, OTHER)
    held_run(side)
    if ended == "settled":
        settle(side, 50_000)
    if ended == "refunded":
        refund(side)
    assert refused(side, lambda: ask(side, tenant=OTHER)) == ["ERR_TENANT_MISMATCH"]


def test_dpp_52_another_tenant_finds_no_hold_after_the_reserve_key_expired(side: Side) -> None:
    open_tenant(side, OTHER)
    held_run(side)
    side.pass_seconds(constants.RESERVATION_TTL_SECONDS)
    assert refused(side, lambda: settle(side, 1_000, tenant=OTHER)) == ["ERR_NO_RESERVE"]


def test_one_tenants_credit_is_not_anothers(side: Side) -> None:
    open_tenant(side, OTHER)
    credit(side, 5)
    assert refused(side, lambda: credit(side, 5, tenant=OTHER)) == ["ERR_TENANT_MISMATCH"]


@pytest.mark.parametrize("wrong", WRONG_AMOUNTS, ids=repr)
def test_dpp_52_a_wrong_amount_is_refused_inside_the_script(side: Side, wrong: str) -> None:
    held_run(side)
    assert refused(side, lambda: reserve(side, wrong, run="another")) == ["ERR_ARGUMENT", "reserved_usd_micros"]
    if wrong != "0":
        assert refused(side, lambda: settle(side, wrong)) == ["ERR_ARGUMENT", "charge_usd_micros"]
    if not wrong.startswith("-") or not wrong[1:].isdigit():
        assert refused(side, lambda: credit(side, wrong)) == ["ERR_ARGUMENT", "amount_usd_micros"]


def test_a_wrong_sign_is_refused_inside_the_script(side: Side) -> None:
    for wrong in ("-0", "--1", "-", "-9007199254740992", "-01"):
        assert refused(side, lambda: credit(side, wrong)) == ["ERR_ARGUMENT", "amount_usd_micros"]  # noqa: B023


@pytest.mark.parametrize(
    ("name", "names", "arguments", "wrong"),
    [
        ("reserve", run_keys(), ["", "1", "1", RUN, EPOCH], "tenant_id"),
        ("reserve", run_keys(), [TENANT, "1", "now", RUN, EPOCH], "created_at_ms"),
        ("reserve", run_keys(), [TENANT, "1", "1" * 17, RUN, EPOCH], "created_at_ms"),
        ("reserve", run_keys(), [TENANT, "1", "1", "", EPOCH], "run_id"),
        ("reserve", run_keys(), [TENANT, "1", "1", RUN], "epoch"),
        ("reserve", run_keys()[:2], [TENANT, "1", "1", RUN, EPOCH], "keys"),
        ("reserve", run_keys(OTHER), [TENANT, "1", "1", RUN, EPOCH], "keys"),
        ("reserve", run_keys(run="another"), [TENANT, "1", "1", RUN, EPOCH], "keys"),
        ("settle", run_keys(), ["1"], "tenant_id"),
        ("settle", run_keys(), ["1", TENANT], "run_id"),
        ("settle", run_keys(), ["1", TENANT, RUN, ""], "epoch"),
        ("settle", run_keys(OTHER), ["1", TENANT, RUN, EPOCH], "keys"),
        ("refund_full", run_keys(), [], "tenant_id"),
        ("refund_full", run_keys(), [TENANT, ""], "run_id"),
        ("refund_full", run_keys(), [TENANT, RUN], "epoch"),
        ("refund_full", run_keys(run="another"), [TENANT, RUN, EPOCH], "keys"),
        ("credit", credit_keys(), ["", "1", ENTRY, EPOCH], "tenant_id"),
        ("credit", credit_keys(), [TENANT, "1", "", EPOCH], "entry_id"),
        ("credit", credit_keys(), [TENANT, "1", ENTRY, ""], "epoch"),
        ("credit", credit_keys(OTHER), [TENANT, "1", ENTRY, EPOCH], "keys"),
        ("rebuild", rebuild_keys([]), ["", "x", "0", "begin"], "tenant_id"),
        ("rebuild", rebuild_keys([]), [TENANT, "", "0", "begin"], "token"),
        ("rebuild", rebuild_keys([]), [TENANT, "x", "1e3", "begin"], "balance"),
        ("rebuild", rebuild_keys([]), [TENANT, "x", "9007199254740992", "begin"], "balance"),
        ("rebuild", rebuild_keys([]), [TENANT, "x", "0", "end"], "mode"),
        ("rebuild", rebuild_keys([], OTHER), [TENANT, "x", "0", "begin"], "keys"),
        ("rebuild", rebuild_keys([]), [TENANT, "x", "0", "begin", "hold", RUN, "1", "1"], "keys"),
    ],
)
def test_wrong_arguments_are_refused_by_name(
    side: Side, name: str, names: list[str], arguments: list[str], wrong: str
) -> None:
    assert refused(side, lambda: side.call(name, names, arguments)) == ["ERR_ARGUMENT", wrong]


@pytest.mark.parametrize("amount", [1, 10**14 - 1, 10**14, 10**14 + 1, 2**52 + 1, MAX_MICROS - 1, MAX_MICROS])
def test_dpp_52_counting_is_exact_up_to_the_limit(side: Side, amount: int) -> None:
    side.put(keys.balance_key(TENANT), str(MAX_MICROS))
    assert reserve(side, amount) == ["OK", str(MAX_MICROS - amount)]
    charge = amount // 2
    assert settle(side, charge) == ["OK", str(charge), str(amount - charge), str(MAX_MICROS - charge), "first"]
    assert reserve(side, MAX_MICROS - charge, run="another") == ["OK", "0"]
    assert refund(side, run="another") == ["OK", str(MAX_MICROS - charge), str(MAX_MICROS - charge), "0", "first"]


def test_a_balance_past_the_limit_stays_exact(side: Side) -> None:
    side.put(keys.balance_key(TENANT), str(MAX_MICROS))
    reserve(side, 7)
    side.put(keys.balance_key(TENANT), str(MAX_MICROS))
    assert refund(side) == ["OK", "7", str(MAX_MICROS + 7), "0", "first"]
    assert reserve(side, MAX_MICROS, run="another") == ["OK", "7"]


# Rebuild

TOKEN = "closed." + "a" * 40 + ".rebuild"


def test_rebuild_writes_a_tenant_whole(side: Side) -> None:
    held_run(side)
    settle(side, 50_000)
    reserve(side, 100_000, run="never-committed")
    side.put(keys.gate_key(TENANT), "closed.left-over")
    side.put(keys.EPOCH, TOKEN)
    items = [
        RebuildItem("hold", RUN, 250_000, 77),
        RebuildItem("none", "never-committed"),
        RebuildItem("receipt", "ended", 30_000, 70_000),
        RebuildItem("credit", ENTRY, -40),
        RebuildItem("credit", "pending", 7, 1),
    ]
    assert rebuild(side, items, token=TOKEN, balance=-9) == ["OK"]
    assert side.state() == {
        keys.EPOCH: (TOKEN, None),
        keys.seq_key(TENANT): ("4", None),
        keys.balance_key(TENANT): ("-9", None),
        keys.holds_key(TENANT): ({RUN: "250000"}, None),
        keys.reserve_key(RUN): ({"tenant_id": TENANT, "reserved_usd_micros": "250000", "created_at_ms": "77"}, 3_600),
        keys.receipt_key("ended"): (f"30000 70000 -9 {TENANT}", 86_400),
        keys.credit_key(ENTRY): (f"-40 -9 {TENANT}", 86_400),
        keys.credit_key("pending"): (f"7 -9 {TENANT}", None),
        keys.EVIDENCE: ([f"end:{RUN}"], None),
    }


def test_rebuild_goes_on_where_it_stopped(side: Side) -> None:
    side.put(keys.EPOCH, TOKEN)
    rebuild(side, [RebuildItem("hold", "first", 1)], token=TOKEN, balance=5)
    assert rebuild(side, [RebuildItem("hold", "second", 2)], token=TOKEN, balance=5, mode="more") == ["OK"]
    assert side.state()[keys.holds_key(TENANT)][0] == {"first": "1", "second": "2"}


def test_rebuild_of_one_tenant_stands_behind_its_own_gate(side: Side) -> None:
    side.put(keys.gate_key(TENANT), TOKEN)
    assert rebuild(side, [], token=TOKEN, balance=5) == ["OK"]
    assert side.state()[keys.gate_key(TENANT)] == (TOKEN, None)
    assert balance_of(side) == 5


@pytest.mark.parametrize("gate", [None, "closed." + "a" * 40 + ".another"])
def test_rebuild_is_refused_where_the_gate_is_not_its_own(side: Side, gate: str | None) -> None:
    if gate is not None:
        side.put(keys.EPOCH, gate)
    assert refused(side, lambda: rebuild(side, [], token=TOKEN, balance=5)) == ["ERR_SUPERSEDED"]


@pytest.mark.parametrize("epoch", [None, "closed." + "a" * 40 + ".another"])
def test_dpp_55_rebuild_of_one_tenant_is_refused_while_all_money_is_closed(side: Side, epoch: str | None) -> None:
    """The rebuild that closed it has its own snapshot of this tenant, and may be about to write it."""
    side.drop(keys.EPOCH) if epoch is None else side.put(keys.EPOCH, epoch)
    side.put(keys.gate_key(TENANT), TOKEN)
    assert refused(side, lambda: rebuild(side, [], token=TOKEN, balance=5)) == ["ERR_SUPERSEDED"]


@pytest.mark.parametrize(
    ("item", "wrong"),
    [
        (("hold", RUN, "0", "1"), "item"),
        (("hold", RUN, "-1", "1"), "item"),
        (("hold", RUN, "1", "x"), "item"),
        (("receipt", RUN, "nan", "0"), "item"),
        (("receipt", RUN, "0", "9007199254740992"), "item"),
        (("gift", RUN, "1", "1"), "item"),
        (("hold", "another", "1", "1"), "keys"),
        (("credit", RUN, "1", "0"), "keys"),
    ],
)
def test_rebuild_refuses_a_wrong_item_whole(side: Side, item: Sequence[str], wrong: str) -> None:
    side.put(keys.EPOCH, TOKEN)
    names = rebuild_keys([RebuildItem("hold", "good", 1), RebuildItem("hold", RUN)])
    arguments = [TENANT, TOKEN, "5", "begin", "hold", "good", "1", "1", *item]
    assert refused(side, lambda: side.call("rebuild", names, arguments)) == ["ERR_ARGUMENT", wrong]


# The files themselves


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_scripts_header_names_keys_arguments_and_answers(name: str) -> None:
    text = SCRIPTS[name].text
    header = text[: text.index("\n\n")]
    assert "-- KEYS " in header
    assert "-- ARGV " in header
    answers = {part.split("'")[1] for part in text.split("return {")[1:] if part.startswith("'")}
    assert answers <= {word for line in header.splitlines() for word in line.split()}


def test_the_scripts_expire_by_the_platforms_constants() -> None:
    assert keys.RESERVE_TTL_SECONDS == constants.RESERVATION_TTL_SECONDS == 3_600
    assert keys.RECEIPT_TTL_SECONDS == 86_400
    for name in SCRIPTS:
        lines = SCRIPTS[name].text.splitlines()
        ttls = [line.split(",")[-1].strip(" )") for line in lines if "'EXPIRE'" in line or "'EX'" in line]
        assert set(ttls) <= {"3600", "86400"}, name


@pytest.mark.parametrize("name", SCRIPTS)
def test_dpp_52_no_script_writes_an_amount_through_fourteen_digits(name: str) -> None:
    """`tostring` and `..` round from 1e14 on; `%.0f` and `%d` write what a Lua number holds, exact up to 2^53."""
    text = SCRIPTS[name].text
    assert "tostring(" not in text
    assert text.count("string.format(") == len(re.findall(r"string\.format\('%(\.0f|d)( %\1)*', ", text))


def test_dpp_51_a_script_the_server_forgot_is_loaded_again(valkey: redis.Redis) -> None:
    side = ScriptSide(valkey)
    open_tenant(side)
    assert reserve(side, 1) == ["OK", "999999"]
    valkey.script_flush()
    assert reserve(side, 1, run="another") == ["OK", "999998"]
