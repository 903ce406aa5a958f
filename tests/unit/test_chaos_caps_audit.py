"""What `make chaos` finds of spend caps: a limit that was passed is found, and a late answer is no fault."""

import pytest

from tests.proving.chaos.caps_audit import CapFindings, CountedRun, Limit, held_past, most_allowed

FIRST, LOWER, HIGHER = Limit(500, 0.0, 1.0), Limit(300, 10.0, 12.0), Limit(900, 20.0, None)


def run(name: str, held_at: float | None, *, born_at: float = 2.0, over_at: float | None = None) -> CountedRun:
    return CountedRun(name, reserved=200, taken=50, born_at=born_at, held_at=held_at, claimed_at=over_at)


def wrong(*runs: CountedRun, limits: tuple[Limit, ...] = (FIRST,)) -> list[str]:
    return [what.split()[0] for what in held_past(runs, limits, CapFindings())]


@pytest.mark.parametrize(
    ("since", "until", "allowed"),
    [
        (2, 9, 500),
        (9, 11, 500),  # the lower limit may bind, and nobody was told that it does
        (11, 13, 500),  # it began before the answer
        (12, 13, 300),
        (13, 19, 300),
        (13, 20, 900),  # never answered: it may bind from its commit on
        (99, 100, 900),
    ],
)
def test_a_hold_may_meet_each_limit_that_could_bind_it(since: float, until: float, allowed: int) -> None:
    assert most_allowed([FIRST, LOWER, HIGHER], since=since, until=until) == allowed


def test_a_hold_past_the_limit_is_found_and_one_up_to_it_is_not() -> None:
    assert wrong(run("a", 3), run("b", 4)) == []
    assert wrong(run("a", 3), run("b", 4), run("c", 5)) == ["c"]
    assert wrong(run("a", 3), run("b", 4), limits=(Limit(399, 0.0, 1.0),)) == ["b"]
    assert wrong(run("a", 3), run("b", 4), limits=(Limit(400, 0.0, 1.0),)) == []


def test_what_a_run_did_not_use_is_free_from_its_claim_on() -> None:
    assert wrong(run("a", 3, over_at=4.5), run("b", 4), run("c", 5)) == []
    assert wrong(run("a", 3, over_at=4.5), run("b", 4), run("c", 5), run("d", 6)) == ["d"], "what it took stays"
    assert wrong(run("a", 3, over_at=5), run("b", 4), run("c", 5)) == ["c"], "not before"


def test_a_run_that_was_never_held_counts_for_nothing() -> None:
    assert wrong(run("a", None, over_at=3), run("b", None), run("c", 4), run("d", 5)) == []


def test_a_lowered_limit_ends_no_hold_and_stops_the_next() -> None:
    limits = (FIRST, LOWER)
    assert wrong(run("a", 3), run("b", 4), limits=limits) == []
    assert wrong(run("a", 3), run("b", 4), run("c", 13, born_at=12.5), limits=limits) == ["c"]
    assert wrong(run("a", 3), run("b", 13, born_at=11.5), limits=limits) == [], "its hold may have come before"
