"""Which slot a message may have: a flood leaves a place for another tenant's first run."""

import pytest

from dpp_project.celery_sqs.lanes import EXPRESS, HELD_MOST, RUNS, Lanes, express_slots


def filled(*, general: int = 4, express: int = 1, by: str = "t_flood") -> Lanes:
    """All general slots at work for one tenant."""
    lanes = Lanes(general=general, express=express)
    assert all(lanes.take(RUNS, tag=f"flood-{at}", tenant_id=by) for at in range(general))
    return lanes


@pytest.mark.parametrize(("slots", "express"), [(1, 1), (4, 1), (8, 1), (16, 2), (64, 8)])
def test_a_worker_has_an_express_slot_for_eight_general_ones_and_at_least_one(slots: int, express: int) -> None:
    assert express_slots(slots) == express


@pytest.mark.contract("DPP-87")
def test_dpp_87_a_flood_that_fills_all_general_slots_leaves_a_place_for_another_tenant() -> None:
    lanes = filled()
    assert lanes.room(RUNS, asked=0) == 0
    assert lanes.room(EXPRESS, asked=0) == lanes.room(EXPRESS, asked=0, held=HELD_MOST) == 1
    assert lanes.take(EXPRESS, tag="quiet", tenant_id="t_quiet")
    assert lanes.room(EXPRESS, asked=0) == 0


@pytest.mark.contract("DPP-87")
def test_dpp_87_whose_runs_are_at_work_here_gets_no_express_slot() -> None:
    lanes = filled()
    assert not lanes.take(EXPRESS, tag="fifth", tenant_id="t_flood")
    assert lanes.take(EXPRESS, tag="quiet", tenant_id="t_quiet")
    assert not lanes.take(EXPRESS, tag="second", tenant_id="t_quiet")
    lanes.leave("quiet")
    assert lanes.take(EXPRESS, tag="second", tenant_id="t_quiet")


def test_an_express_slot_is_none_for_the_queue_of_runs() -> None:
    assert not filled().take(RUNS, tag="more", tenant_id="t_other")


def test_one_tenant_alone_may_have_all_general_slots_by_the_express_queue() -> None:
    lanes = Lanes(general=2, express=1)
    assert [lanes.take(EXPRESS, tag=str(at), tenant_id="t_one") for at in range(3)] == [True, True, False]


def test_a_slot_that_was_promised_to_the_queue_of_runs_is_taken_last() -> None:
    lanes = Lanes(general=1, express=1)
    assert lanes.take(EXPRESS, tag="first", tenant_id="t_one", promised=1)
    assert lanes.room(RUNS, asked=0) == 1, "it has the express slot"
    assert lanes.take(EXPRESS, tag="second", tenant_id="t_one", promised=1)
    assert not lanes.take(RUNS, tag="late", tenant_id="t_two"), "its queue has it back"


def test_a_place_is_free_again_once_and_for_whose_it_was_alone() -> None:
    lanes = filled(general=1)
    lanes.leave("never had one")
    assert lanes.room(RUNS, asked=0) == 0
    for _ in range(2):
        lanes.leave("flood-0")
    assert lanes.room(RUNS, asked=0) == 1
    assert lanes.room(EXPRESS, asked=0) == 2


def test_as_many_are_asked_for_as_are_not_on_their_way_and_no_more_are_held_than_a_few() -> None:
    lanes = Lanes(general=20, express=2)
    assert (lanes.room(RUNS, asked=3), lanes.room(EXPRESS, asked=3)) == (17, HELD_MOST - 3)
    assert lanes.room(EXPRESS, asked=0, held=HELD_MOST - 2) == 2
    assert [lanes.room(EXPRESS, asked=asked, held=HELD_MOST) for asked in (0, 1)] == [1, 0]


def test_without_an_express_queue_there_are_general_slots_alone() -> None:
    lanes = Lanes(general=2, express=0)
    assert lanes.room(RUNS, asked=1) == 1
