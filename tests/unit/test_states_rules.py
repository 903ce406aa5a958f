"""The table of states by itself: what it allows, what it cannot allow (DPP-59)."""

import itertools

import pytest

from runs.states import EDGES, ENDED_MONEY, LEGAL, TERMINAL, MoneyState, Stage, Status, may_follow

pytestmark = pytest.mark.contract("DPP-59")

STAGES = (None, *Stage)
ALL = tuple(itertools.product(Status, MoneyState, STAGES))


def test_states_terminal_means_that_the_money_is_ended_and_committed() -> None:
    for status, money, stage in LEGAL:
        assert (status in TERMINAL) == (money in ENDED_MONEY) == (stage is Stage.COMMITTED)
    assert len(LEGAL) == 15


def test_states_every_edge_leads_from_legal_to_legal() -> None:
    for name, steps in EDGES.items():
        assert steps, name
        assert {combination for step in steps for combination in step} <= LEGAL, name


def test_states_every_legal_combination_is_reached_from_the_first() -> None:
    reached = {(Status.QUEUED, MoneyState.NONE, None)}
    while True:
        more = {after for before in reached for after in ALL if may_follow(before, after)}
        if more <= reached:
            break
        reached |= more
    assert reached == LEGAL


def test_states_committed_is_never_left() -> None:
    for before, after in itertools.product(ALL, ALL):
        if before[2] is Stage.COMMITTED and may_follow(before, after):
            assert after[2] is Stage.COMMITTED


def test_states_money_ends_only_by_a_commit() -> None:
    for before, after in itertools.product(ALL, ALL):
        if may_follow(before, after) and before[1] not in ENDED_MONEY and after[1] in ENDED_MONEY:
            assert (before[2], after[2]) == (Stage.CLAIMED, Stage.COMMITTED)


def test_states_a_refund_is_final() -> None:
    for before, after in itertools.product(ALL, ALL):
        if before[1] is MoneyState.REFUNDED and may_follow(before, after):
            assert after == (Status.EXPIRED, MoneyState.REFUNDED, Stage.COMMITTED)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((Status.QUEUED, MoneyState.NONE, None), (Status.PROCESSING, MoneyState.RESERVED, None)),
        ((Status.QUEUED, MoneyState.RESERVED, None), (Status.FAILED, MoneyState.REFUNDED, Stage.COMMITTED)),
        ((Status.QUEUED, MoneyState.NONE, None), (Status.QUEUED, MoneyState.RESERVED, Stage.CLAIMED)),
        (
            (Status.QUEUED, MoneyState.RESERVED, Stage.CLAIMED),
            (Status.COMPLETED, MoneyState.SETTLED, Stage.COMMITTED),
        ),
    ],
)
def test_states_no_edge_skips_a_step(
    before: tuple[Status, MoneyState, None], after: tuple[Status, MoneyState, None]
) -> None:
    assert not may_follow(before, after)
