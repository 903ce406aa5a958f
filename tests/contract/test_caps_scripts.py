"""The scripts' contract of caps, over the Lua scripts and the pure model: what is counted where, and every refusal.

2026-04-30 is a Thursday. The next day begins a month and no week; Monday the 4th begins a week and no month.
"""

from collections.abc import Callable, Mapping
from datetime import date
from functools import partial

import pytest
import redis

from budget.money import MAX_MICROS
from budget.redis import keys, view
from budget.redis.items import RebuildItem, caps_item
from budget.redis.view import SeenCaps
from budget.redis.windows import PERIODS, UNDATED, CapPeriod, Counted, date_number
from tests.gear.reference.money import (
    ENTRY,
    EPOCH,
    OTHER,
    RUN,
    TENANT,
    ScriptSide,
    Side,
    caps_keys,
    credit,
    credit_keys,
    end_keys,
    open_tenant,
    put_caps,
    rebuild,
    rebuild_keys,
    refund,
    refused,
    reserve,
    run_keys,
    settle,
)

pytestmark = pytest.mark.contract("CAP-02", "CAP-04", "CAP-05", "CAP-07", "CAP-08")

THURSDAY, FRIDAY, SATURDAY, MONDAY = date(2026, 4, 30), date(2026, 5, 1), date(2026, 5, 2), date(2026, 5, 4)
KEY = "key-one"
ON_THURSDAY = Counted(KEY, THURSDAY)
TOKEN = "closed." + "a" * 40 + ".rebuild"


def scope_of(side: Side, lineage: str | None = None) -> dict[str, str]:
    found = side.state()[keys.caps_key(TENANT, lineage)]
    assert found[1] is None, "a scope never expires"
    assert isinstance(found[0], dict)
    return found[0]


def counted_of(side: Side, lineage: str | None = None) -> list[tuple[int, int]]:
    """(counted, used) of day, week, month and total."""
    scope = scope_of(side, lineage)
    counted, used = ([int(number) for number in scope[name].split(" ")] for name in ("counted", "used"))
    return list(zip(counted, used, strict=True))


def begin(
    side: Side, lineage: str | None = None, *, revision: int = 1, limits: Mapping[CapPeriod, int] | None = None
) -> None:
    assert put_caps(side, revision, lineage=lineage, new=True, limits=limits) == ["OK"]


def hold(side: Side, micros: int, run: str, counted: Counted = ON_THURSDAY) -> list[str]:
    return reserve(side, micros, run=run, counted=counted)


def end(side: Side, charge: int, run: str, counted: Counted = ON_THURSDAY) -> list[str]:
    return settle(side, charge, run=run, counted=counted)


# A scope


def test_a_new_scope_begins_at_nothing(side: Side) -> None:
    begin(side, revision=7, limits={"day": 5, "total": MAX_MICROS})
    assert scope_of(side) == {
        "revision": "7",
        "date": UNDATED,
        "limits": f"5 - - {MAX_MICROS}",
        "counted": "0 0 0 0",
        "used": "0 0 0 0",
    }
    assert side.state()[keys.seq_key(TENANT)] == ("1", None)


def test_a_hold_and_its_end_are_counted_in_both_scopes(side: Side) -> None:
    begin(side)
    begin(side, KEY)
    assert hold(side, 1_000, "a") == ["OK", "999000"]
    assert counted_of(side) == counted_of(side, KEY) == [(1_000, 0)] * 4
    assert scope_of(side)["date"] == "2026043020260427"
    assert end(side, 300, "a") == ["OK", "300", "700", "999700", "first"]
    assert counted_of(side) == counted_of(side, KEY) == [(300, 300)] * 4
    hold(side, 50, "b")
    assert refund(side, run="b", was_held=True, counted=ON_THURSDAY) == ["OK", "50", "999700", "0", "first"]
    assert counted_of(side) == counted_of(side, KEY) == [(300, 300)] * 4


def test_a_run_counts_for_its_own_key_only(side: Side) -> None:
    for lineage in (None, KEY, "key-two"):
        begin(side, lineage)
    hold(side, 10, "a")
    hold(side, 200, "b", Counted("key-two", THURSDAY))
    hold(side, 3_000, "c", Counted(None, THURSDAY))
    assert counted_of(side) == [(3_210, 0)] * 4
    assert counted_of(side, KEY) == [(10, 0)] * 4
    assert counted_of(side, "key-two") == [(200, 0)] * 4


def test_without_a_date_or_without_keys_a_run_counts_nowhere(side: Side) -> None:
    begin(side, limits={"day": 0})
    before = scope_of(side)
    assert hold(side, 10, "a", Counted(KEY, None))[0] == "OK"
    assert end(side, 5, "a", Counted(KEY, None))[0] == "OK"
    assert reserve(side, 10, run="b") == ["OK", "999985"]
    assert settle(side, 5, run="b")[0] == "OK"
    assert credit(side, 5)[0] == "OK"
    assert scope_of(side) == before


def test_no_scope_is_made_by_counting(side: Side) -> None:
    hold(side, 10, "a")
    end(side, 5, "a")
    credit(side, 5, counted=ON_THURSDAY)
    assert not [key for key in side.state() if key.startswith("caps:")]


# Limits


@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize(("lineage", "who"), [(None, "tenant"), (KEY, "key")])
def test_the_last_micro_can_be_held_and_not_one_more(
    side: Side, period: CapPeriod, lineage: str | None, who: str
) -> None:
    begin(side)
    begin(side, KEY)
    put_caps(side, 2, lineage=lineage, limits={period: 1_000})
    hold(side, 600, "a")
    end(side, 100, "a")
    hold(side, 200, "b")
    full = ["ERR_CAP", who, period, "1000", "300", "100", date_number(THURSDAY)]
    assert refused(side, lambda: hold(side, 701, "c")) == full
    assert hold(side, 700, "c")[0] == "OK"
    assert refused(side, lambda: hold(side, 1, "d"))[:5] == ["ERR_CAP", who, period, "1000", "1000"]
    end(side, 699, "c")
    assert hold(side, 1, "d")[0] == "OK"


def test_the_first_of_several_refusals_is_told(side: Side) -> None:
    begin(side, limits=dict.fromkeys(PERIODS, 5))
    begin(side, KEY, limits=dict.fromkeys(PERIODS, 5))
    told = []
    for lineage in (None, KEY):
        limits = dict.fromkeys(PERIODS, 5)
        for revision, period in enumerate(reversed(PERIODS), start=2):
            told.append(refused(side, lambda: hold(side, 6, "a"))[1:3])
            limits[period] = 6
            put_caps(side, revision, lineage=lineage, limits=limits)
    assert told == [[who, period] for who in ("tenant", "key") for period in ("total", "month", "week", "day")]
    assert hold(side, 6, "a")[0] == "OK"


def test_the_balance_is_refused_before_a_cap_and_what_was_held_before_both(side: Side) -> None:
    begin(side, limits={"day": 5})
    side.put(keys.balance_key(TENANT), "6")
    assert refused(side, lambda: hold(side, 7, "a")) == ["ERR_INSUFFICIENT", "6"]
    assert hold(side, 5, "a") == ["OK", "1"]
    assert refused(side, lambda: hold(side, 5, "a")) == ["ERR_ALREADY_RESERVED", "5"]


def test_a_refusal_of_the_key_counts_nothing_for_the_tenant(side: Side) -> None:
    begin(side, limits={"day": 100})
    begin(side, KEY, limits={"day": 10})
    hold(side, 5, "a")
    on_friday = Counted(KEY, FRIDAY)
    assert refused(side, lambda: hold(side, 11, "b", on_friday))[:3] == ["ERR_CAP", "key", "day"]


# Changes of limits


def test_a_change_is_in_force_at_once_and_touches_no_counter(side: Side) -> None:
    begin(side, limits={"day": 1_000, "week": 1_000})
    hold(side, 800, "a")
    before = counted_of(side)
    assert put_caps(side, 2, limits={"day": 500}) == ["OK"]
    assert counted_of(side) == before
    assert scope_of(side)["limits"] == "500 - - -"
    assert refused(side, lambda: hold(side, 1, "b"))[3:6] == ["500", "800", "0"]
    assert end(side, 800, "a")[1] == "800", "a lowered limit touches no hold that stands"
    assert refused(side, lambda: put_caps(side, 2, limits={"day": 9_000})) == ["ERR_OLD", "2"]
    assert refused(side, lambda: put_caps(side, 1, limits={"day": 9_000})) == ["ERR_OLD", "2"]


def test_limits_taken_away_and_restored_count_as_if_they_had_never_been_away(side: Side) -> None:
    begin(side, limits={"day": 1_000})
    hold(side, 400, "a")
    put_caps(side, 2)
    hold(side, 500, "b")
    end(side, 300, "a")
    put_caps(side, 3, limits={"day": 1_000})
    assert refused(side, lambda: hold(side, 201, "c"))[3:6] == ["1000", "800", "300"]
    assert hold(side, 200, "c")[0] == "OK"


def test_limits_of_a_scope_that_does_not_stand_are_refused(side: Side) -> None:
    assert refused(side, lambda: put_caps(side, 1, limits={"day": 5})) == ["ERR_ABSENT"]
    begin(side, KEY)
    assert refused(side, lambda: put_caps(side, 1, limits={"day": 5})) == ["ERR_ABSENT"]


def test_a_new_scope_that_stands_is_not_begun_again(side: Side) -> None:
    begin(side, KEY)
    hold(side, 5, "a")
    assert put_caps(side, 2, lineage=KEY, new=True, limits={"day": 5}) == ["OK"]
    assert counted_of(side, KEY) == [(5, 0)] * 4


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [(keys.EPOCH, TOKEN, "epoch"), (keys.EPOCH, None, "epoch"), (keys.gate_key(TENANT), "closed.x", "gate")],
)
def test_no_limit_changes_behind_a_closed_gate(side: Side, key: str, value: str | None, why: str) -> None:
    side.drop(key) if value is None else side.put(key, value)
    assert refused(side, lambda: put_caps(side, 1, new=True)) == ["ERR_UNAVAILABLE", why]


# Lost scopes


def without(name: str, scope: dict[str, str]) -> str | dict[str, str]:
    return {it: text for it, text in scope.items() if it != name}


LOST: dict[str, Callable[[dict[str, str]], str | dict[str, str]]] = {
    **{f"no {name}": partial(without, name) for name in ("revision", "date", "limits", "counted", "used")},
    "no number": lambda scope: scope | {"counted": "nan 0 0 0"},
    "no whole number": lambda scope: scope | {"used": "0 0 0 1.5"},
    "three numbers": lambda scope: scope | {"used": "0 0 0"},
    "five numbers": lambda scope: scope | {"counted": "0 0 0 0 0"},
    "too many digits": lambda scope: scope | {"used": f"0 0 0 {'1' * 19}"},
    "an empty limit": lambda scope: scope | {"limits": "- -  -"},
    "no limit": lambda scope: scope | {"limits": "- 5- - -"},
    "a limit below nothing": lambda scope: scope | {"limits": "- -5 - -"},
    "no date": lambda scope: scope | {"date": "20260430"},
    "a cut date": lambda scope: scope | {"date": "202604302026042x"},
    "a revision that is none": lambda scope: scope | {"revision": "-1"},
    "only a limit": lambda _: {"limits": "5 - - -"},
    "no hash": lambda _: "1",
}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_a_scope_that_is_cut_is_lost_and_never_zero(side: Side, lost: Callable[..., str | dict[str, str]]) -> None:
    begin(side)
    begin(side, KEY)
    hold(side, 10, "a")
    cut = lost(scope_of(side, KEY))
    side.put(keys.caps_key(TENANT, KEY), cut)
    assert refused(side, lambda: hold(side, 1, "b")) == ["ERR_UNAVAILABLE", "caps"]
    assert refused(side, lambda: put_caps(side, 2, lineage=KEY)) == ["ERR_ABSENT"]
    assert end(side, 3, "a")[0] == "OK"
    assert counted_of(side) == [(3, 3)] * 4
    assert put_caps(side, 2, lineage=KEY, new=True) == ["OK"]
    assert counted_of(side, KEY) == [(0, 0)] * 4


@pytest.mark.parametrize("least", [(1, 0), (0, 1), (1, 1)])
def test_an_absent_scope_is_lost_for_who_knows_of_its_caps(side: Side, least: tuple[int, int]) -> None:
    answer = refused(side, lambda: reserve(side, 1, counted=ON_THURSDAY, least=least))
    assert answer == ["ERR_UNAVAILABLE", "caps"]
    assert reserve(side, 1, counted=ON_THURSDAY, least=(0, 0))[0] == "OK"


def test_a_hold_that_knows_of_caps_names_their_scope(side: Side) -> None:
    answer = refused(side, lambda: reserve(side, 1, counted=Counted(None, THURSDAY), least=(0, 1)))
    assert answer == ["ERR_UNAVAILABLE", "caps"]


def test_a_scope_older_than_its_caller_knows_holds_nothing(side: Side) -> None:
    begin(side, revision=3)
    begin(side, KEY, revision=8)
    hold(side, 1, "a")
    for least in ((4, 8), (3, 9)):
        answer = refused(side, lambda: reserve(side, 1, counted=ON_THURSDAY, least=least))  # noqa: B023
        assert answer == ["ERR_UNAVAILABLE", "caps"]
    assert refused(side, lambda: reserve(side, 1, counted=Counted(KEY, None), least=(4, 8)))[1] == "caps"
    assert reserve(side, 1, counted=ON_THURSDAY, least=(3, 8))[0] == "OK"


# Dates


def test_a_later_date_ends_the_windows_it_does_not_lie_in(side: Side) -> None:
    begin(side)
    hold(side, 1_000, "a")
    end(side, 600, "a")
    assert counted_of(side) == [(600, 600)] * 4
    hold(side, 10, "b", Counted(None, FRIDAY))
    assert counted_of(side) == [(10, 0), (610, 600), (10, 0), (610, 600)]
    hold(side, 1, "c", Counted(None, MONDAY))
    assert counted_of(side) == [(1, 0), (1, 0), (11, 0), (611, 600)]
    assert scope_of(side)["date"] == "2026050420260504"


def test_the_limits_of_a_window_are_those_of_its_successor(side: Side) -> None:
    begin(side, limits={"day": 100})
    hold(side, 100, "a")
    assert refused(side, lambda: hold(side, 1, "b"))[2] == "day"
    assert hold(side, 100, "b", Counted(None, FRIDAY))[0] == "OK"


def test_what_was_held_before_midnight_moves_its_own_windows_only(side: Side) -> None:
    begin(side)
    begin(side, KEY)
    for run in ("a", "b", "c"):
        hold(side, 1_000, run)
    hold(side, 10, "d", Counted(KEY, FRIDAY))
    assert counted_of(side) == [(10, 0), (3_010, 0), (10, 0), (3_010, 0)]
    end(side, 400, "a")
    assert counted_of(side) == [(10, 0), (2_410, 400), (10, 0), (2_410, 400)]
    refund(side, run="b", was_held=True, counted=ON_THURSDAY)
    credit(side, 400, counted=ON_THURSDAY)
    assert counted_of(side) == counted_of(side, KEY) == [(10, 0), (1_010, 0), (10, 0), (1_010, 0)]
    hold(side, 1, "e", Counted(KEY, MONDAY))
    end(side, 1_000, "c")
    assert counted_of(side) == counted_of(side, KEY) == [(1, 0), (1, 0), (11, 0), (1_011, 1_000)]


@pytest.mark.parametrize("scopes", [(None,), (KEY,), (None, KEY)])
def test_a_date_before_the_scopes_own_opens_no_window_again(side: Side, scopes: tuple[str | None, ...]) -> None:
    for lineage in scopes:
        begin(side, lineage)
    hold(side, 1, "a", Counted(KEY, FRIDAY))
    assert refused(side, lambda: hold(side, 1, "b")) == ["ERR_DATE", date_number(FRIDAY)]
    assert hold(side, 1, "b", Counted(KEY, FRIDAY))[0] == "OK"


def test_the_later_of_two_dates_is_answered(side: Side) -> None:
    for lineage in (None, KEY, "key-two"):
        begin(side, lineage)
    hold(side, 1, "a", Counted(KEY, MONDAY))
    side.put(keys.caps_key(TENANT), scope_of(side) | {"date": date_number(FRIDAY)})
    assert refused(side, lambda: hold(side, 1, "b")) == ["ERR_DATE", date_number(MONDAY)]
    assert refused(side, lambda: hold(side, 1, "b", Counted("key-two", THURSDAY))) == ["ERR_DATE", date_number(FRIDAY)]


def test_a_settle_never_ends_a_window(side: Side) -> None:
    """A scope that a rebuild dated before the run: only what both share moves, and a hold alone goes on to a date."""
    begin(side)
    hold(side, 1_000, "a", Counted(None, FRIDAY))
    side.put(keys.caps_key(TENANT), scope_of(side) | {"date": date_number(THURSDAY)})
    end(side, 400, "a", Counted(None, FRIDAY))
    assert counted_of(side) == [(1_000, 0), (400, 400), (1_000, 0), (400, 400)]
    assert scope_of(side)["date"] == date_number(THURSDAY)


# Once


def test_what_is_asked_again_is_counted_once(side: Side) -> None:
    begin(side)
    begin(side, KEY)
    hold(side, 1_000, "a")
    end(side, 300, "a")
    for ask in (
        lambda: end(side, 300, "a"),
        lambda: end(side, 1_000, "a"),
        lambda: refund(side, run="a", was_held=True, counted=ON_THURSDAY),
    ):
        assert refused(side, ask)[-1] == "again"
    credit(side, 300, counted=ON_THURSDAY)
    assert refused(side, lambda: credit(side, 300, counted=ON_THURSDAY))[-1] == "again"
    assert counted_of(side) == counted_of(side, KEY) == [(0, 0)] * 4


def test_a_tombstone_moves_nothing(side: Side) -> None:
    begin(side)
    hold(side, 7, "a")
    before = scope_of(side)
    assert refund(side, run="b", counted=ON_THURSDAY)[-1] == "tombstone"
    assert refused(side, lambda: hold(side, 1, "b")) == ["ERR_CLOSED", "0"]
    assert scope_of(side) == before


def test_an_adjustment_that_takes_more_is_counted_too(side: Side) -> None:
    begin(side)
    hold(side, 1_000, "a")
    end(side, 300, "a")
    credit(side, -50, counted=ON_THURSDAY)
    assert counted_of(side) == [(350, 350)] * 4


# Exact


@pytest.mark.parametrize("micros", [10**14 + 1, 2**52 + 1, 8 * 10**15 - 1, MAX_MICROS])
def test_counting_is_exact_to_the_limit_and_past_it(side: Side, micros: int) -> None:
    """All time may come to more than one balance ever held."""
    begin(side)
    for number in range(4):
        side.put(keys.balance_key(TENANT), str(MAX_MICROS))
        assert hold(side, micros, f"run-{number}")[0] == "OK"
        assert counted_of(side) == [((number + 1) * micros, 0)] * 4
    side.put(keys.balance_key(TENANT), "0")
    end(side, 1, "run-2")
    assert counted_of(side) == [(3 * micros + 1, 1)] * 4
    end(side, micros, "run-0")
    end(side, micros // 2, "run-1")
    used = micros + micros // 2 + 1
    assert counted_of(side) == [(used + micros, used)] * 4
    put_caps(side, 2, limits={"total": MAX_MICROS})
    side.put(keys.balance_key(TENANT), str(MAX_MICROS))
    if used + micros >= MAX_MICROS:
        assert refused(side, lambda: hold(side, 1, "more"))[4:6] == [str(used + micros), str(used)]
    refund(side, run="run-3", was_held=True, counted=ON_THURSDAY)
    assert counted_of(side) == [(used, used)] * 4


# Rebuild


def seen(revision: int, newest: date | None, **numbers: tuple[int | None, int, int]) -> SeenCaps:
    """`day=(limit, counted, used)` and so on."""
    of = {it: numbers.get(it, (None, 0, 0)) for it in PERIODS}
    return SeenCaps(
        revision,
        newest,
        {it: three[0] for it, three in of.items()},
        {it: three[1] for it, three in of.items()},
        {it: three[2] for it, three in of.items()},
    )


def test_a_rebuild_writes_a_scope_whole_or_drops_it(side: Side) -> None:
    begin(side, limits={"day": 5})
    begin(side, KEY, limits={"week": 6, "total": 7})
    begin(side, "key-two")
    side.put(keys.EPOCH, TOKEN)
    items = [
        caps_item(None, seen(9, FRIDAY, day=(0, 3, 2), total=(MAX_MICROS, 10**17, -1))),
        caps_item(KEY, seen(1, None)),
        caps_item("key-two", None),
    ]
    assert rebuild(side, items, token=TOKEN, balance=5) == ["OK"]
    assert scope_of(side) == {
        "revision": "9",
        "date": "2026050120260427",
        "limits": f"0 - - {MAX_MICROS}",
        "counted": f"3 0 0 {10**17}",
        "used": "2 0 0 -1",
    }
    assert scope_of(side, KEY) == {
        "revision": "1",
        "date": UNDATED,
        "limits": "- - - -",
        "counted": "0 0 0 0",
        "used": "0 0 0 0",
    }
    assert keys.caps_key(TENANT, "key-two") not in side.state()


GOOD = "1 2026043020260427 - - - 5 1 2 3 4 0 1 2 3"


@pytest.mark.parametrize(
    ("item", "wrong"),
    [
        (("caps", KEY, GOOD + " 1", "0"), "item"),
        (("caps", KEY, GOOD + " ", "0"), "item"),
        (("caps", KEY, GOOD.replace("- -", "-  -", 1), "0"), "item"),
        (("caps", KEY, GOOD.replace("2026043020260427", "20260430"), "0"), "item"),
        (("caps", KEY, GOOD.replace("5", "-5"), "0"), "item"),
        (("caps", KEY, GOOD.replace("5", "9007199254740992"), "0"), "item"),
        (("caps", KEY, GOOD.replace("5 1 2", "5 - 2"), "0"), "item"),
        (("caps", KEY, "-" + GOOD, "0"), "item"),
        (("caps", KEY, GOOD, "x"), "item"),
        (("caps", "another", GOOD, "0"), "keys"),
        (("caps", "", GOOD, "0"), "keys"),
    ],
)
def test_a_rebuild_refuses_a_wrong_scope_whole(side: Side, item: tuple[str, ...], wrong: str) -> None:
    side.put(keys.EPOCH, TOKEN)
    names = rebuild_keys([RebuildItem("hold", "good", 1), RebuildItem("caps", KEY)])
    arguments = [TENANT, TOKEN, "5", "begin", "hold", "good", "1", "1", *item]
    assert refused(side, lambda: side.call("rebuild", names, arguments)) == ["ERR_ARGUMENT", wrong]
    assert side.call("rebuild", names, [*arguments[:8], "caps", KEY, GOOD, "0"]) == ["OK"]


# Arguments


@pytest.mark.parametrize(
    ("name", "names", "arguments", "wrong"),
    [
        ("reserve", run_keys(), [TENANT, "1", "1", RUN, EPOCH, "20260430"], "date"),
        ("reserve", run_keys(), [TENANT, "1", "1", RUN, EPOCH, UNDATED], "date"),
        ("reserve", run_keys(), [TENANT, "1", "1", RUN, EPOCH, "", "-1"], "least_revision"),
        ("reserve", run_keys(), [TENANT, "1", "1", RUN, EPOCH, "", "", "1e3"], "least_revision"),
        ("reserve", [*run_keys(), keys.caps_key(OTHER)], [TENANT, "1", "1", RUN, EPOCH], "keys"),
        ("reserve", [*run_keys(), keys.caps_key(TENANT, KEY)], [TENANT, "1", "1", RUN, EPOCH], "keys"),
        (
            "reserve",
            [*run_keys(), keys.caps_key(TENANT), keys.caps_key(TENANT)],
            [TENANT, "1", "1", RUN, EPOCH],
            "keys",
        ),
        (
            "reserve",
            [*run_keys(), keys.caps_key(TENANT), keys.caps_key(TENANT, "")],
            [TENANT, "1", "1", RUN, EPOCH],
            "keys",
        ),
        (
            "reserve",
            [*run_keys(), *keys.scope_keys(TENANT, KEY), keys.caps_key(TENANT, "two")],
            [TENANT, "1", "1", RUN, EPOCH],
            "keys",
        ),
        ("settle", end_keys(), ["1", TENANT, RUN, EPOCH, "x" * 16], "date"),
        ("settle", [*end_keys(), keys.caps_key(OTHER)], ["1", TENANT, RUN, EPOCH], "keys"),
        ("refund_full", end_keys(), [TENANT, RUN, EPOCH, "held", "1"], "date"),
        (
            "refund_full",
            [*end_keys(), keys.caps_key(TENANT), keys.caps_key(OTHER, KEY)],
            [TENANT, RUN, EPOCH, ""],
            "keys",
        ),
        ("credit", credit_keys(), [TENANT, "1", ENTRY, EPOCH, "1"], "date"),
        ("credit", [*credit_keys(), keys.caps_key(OTHER)], [TENANT, "1", ENTRY, EPOCH, ""], "keys"),
        ("caps", caps_keys(), ["", EPOCH, "1", "", "", "", "", "new"], "tenant_id"),
        ("caps", caps_keys(), [TENANT, "", "1", "", "", "", "", "new"], "epoch"),
        ("caps", caps_keys(), [TENANT, EPOCH, "0", "", "", "", "", "new"], "revision"),
        ("caps", caps_keys(), [TENANT, EPOCH, "1e3", "", "", "", "", "new"], "revision"),
        ("caps", caps_keys(), [TENANT, EPOCH, "1", "-1", "", "", "", "new"], "day_limit"),
        ("caps", caps_keys(), [TENANT, EPOCH, "1", "", "01", "", "", "new"], "week_limit"),
        ("caps", caps_keys(), [TENANT, EPOCH, "1", "", "", "nan", "", "new"], "month_limit"),
        ("caps", caps_keys(), [TENANT, EPOCH, "1", "", "", "", "9007199254740992", "new"], "total_limit"),
        ("caps", caps_keys(), [TENANT, EPOCH, "1", "", "", "", "", ""], "mode"),
        ("caps", caps_keys(OTHER), [TENANT, EPOCH, "1", "", "", "", "", "new"], "keys"),
        ("caps", caps_keys(TENANT, ""), [TENANT, EPOCH, "1", "", "", "", "", "new"], "keys"),
        ("caps", caps_keys()[:3], [TENANT, EPOCH, "1", "", "", "", "", "new"], "keys"),
    ],
)
def test_wrong_arguments_are_refused_by_name(
    side: Side, name: str, names: list[str], arguments: list[str], wrong: str
) -> None:
    begin(side)
    assert refused(side, lambda: side.call(name, names, arguments)) == ["ERR_ARGUMENT", wrong]


# What is seen


def test_a_scope_is_seen_as_it_stands(valkey: redis.Redis) -> None:
    side = ScriptSide(valkey)
    open_tenant(side)
    begin(side, KEY, revision=4, limits={"week": 0, "total": 900})
    assert view.look_at_caps(valkey, TENANT, KEY) == seen(4, None, week=(0, 0, 0), total=(900, 0, 0))
    put_caps(side, 5, lineage=KEY, limits={"total": 900})
    hold(side, 100, "a")
    end(side, 30, "a")
    hold(side, 5, "b")
    with valkey.pipeline(transaction=False) as pipe:
        view.queue_caps(pipe, TENANT, KEY)
        view.queue_caps(pipe, TENANT)
        mine, its = (view.seen_caps(answer) for answer in pipe.execute())
    day = (None, 35, 30)
    assert mine == seen(5, THURSDAY, day=day, week=day, month=day, total=(900, 35, 30))
    assert mine is not None
    assert mine.held("day") == 5
    assert its is None


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_a_scope_that_is_lost_is_not_seen(
    valkey: redis.Redis, lost: Callable[[dict[str, str]], str | dict[str, str]]
) -> None:
    side = ScriptSide(valkey)
    open_tenant(side)
    begin(side)
    cut = lost(scope_of(side))
    side.put(keys.caps_key(TENANT), cut)
    if isinstance(cut, str):
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            view.look_at_caps(valkey, TENANT)
    else:
        assert view.look_at_caps(valkey, TENANT) is None
