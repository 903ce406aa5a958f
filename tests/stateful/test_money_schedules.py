"""The schedules that decided the rebuild's order, replayed step by step; and what happens without each safeguard."""

import pytest
import redis

from budget.redis import keys
from tests.gear.reference.books import Row
from tests.gear.reference.money import OTHER, TENANT
from tests.gear.reference.money_world import Actor, World, run_out

pytestmark = pytest.mark.contract("DPP-55", "DPP-57")


@pytest.fixture
def world(valkey: redis.Redis) -> World:
    world = World(valkey)
    run_out(world.rebuild())
    for tenant_id in (TENANT, OTHER):
        run_out(world.top_up(tenant_id, 1_000_000))
    return world


def reserved_run(world: World, micros: int = 250_000) -> Row:
    run_out(world.submit(TENANT, micros))
    (row,) = world.books.rows.values()
    assert row.money == "RESERVED"
    return row


def settled_and_not_committed(world: World) -> tuple[Row, Actor]:
    row = reserved_run(world)
    finisher = world.finish(row.run_id, 50_000)
    for _ in range(3):  # read, claim, settle; then stopped before the commit
        next(finisher)
    assert keys.receipt_key(row.run_id) in world.model.strings
    assert row.stage == "CLAIMED"
    return row, finisher


def test_dpp_55_a_finisher_overtaken_by_a_rebuild_commits_nothing(world: World) -> None:
    row, finisher = settled_and_not_committed(world)
    run_out(world.rebuild())
    world.laws_hold()
    run_out(finisher)
    assert row.stage == "CLAIMED"
    world.settle_down()
    assert row.charge_micros == 50_000


def test_without_the_fence_a_hold_is_left_that_nobody_ends(world: World) -> None:
    world.books.fencing = False
    _, finisher = settled_and_not_committed(world)
    run_out(world.rebuild())
    run_out(finisher)
    with pytest.raises(AssertionError):
        world.laws_hold()


def test_dpp_55_a_hold_made_just_before_the_rebuild_is_never_marked(world: World) -> None:
    submitter = world.submit(TENANT, 250_000)
    next(submitter)
    next(submitter)  # the hold is made, the row still says NONE
    run_out(world.rebuild())
    run_out(submitter)
    (row,) = world.books.rows.values()
    assert row.money == "NONE"
    world.laws_hold()
    world.settle_down()
    assert world.books.total_micros(TENANT) == 1_000_000


@pytest.mark.parametrize("stop_after", range(7))
def test_dpp_55_a_rebuild_that_dies_leaves_the_gate_closed(world: World, stop_after: int) -> None:
    reserved_run(world)
    world.flush()
    dying = world.rebuild()
    for _ in range(stop_after):
        next(dying, None)
    if stop_after < 6:
        assert not world.is_open(TENANT)
        assert world.gate_check() is None
    world.settle_down()


def test_dpp_55_a_flush_in_the_middle_of_a_rebuild_starts_it_again(world: World) -> None:
    reserved_run(world)
    rebuild = world.rebuild()
    for _ in range(3):
        next(rebuild)
    world.flush()
    run_out(rebuild)
    assert world.gate_check() is None
    world.settle_down()


def test_dpp_55_an_older_image_is_closed_at_the_first_look(world: World) -> None:
    world.save()
    row = reserved_run(world)
    run_out(world.finish(row.run_id, 50_000))
    world.restore()
    assert not world.is_open(TENANT)
    world.settle_down()
    assert world.model.strings[keys.balance_key(TENANT)] == "950000"


def test_dpp_57_a_top_up_overtaken_by_a_rebuild_is_counted_once(world: World) -> None:
    topping = world.top_up(TENANT, 500_000)
    for _ in range(2):  # in the ledger, not yet at the balance
        next(topping)
    run_out(world.rebuild())
    assert world.model.strings[keys.balance_key(TENANT)] == "1500000"
    run_out(topping)
    assert world.model.strings[keys.balance_key(TENANT)] == "1500000"
    world.settle_down()


def test_dpp_57_a_top_up_overtaken_by_its_tenants_rebuild_is_counted_once(world: World) -> None:
    topping = world.top_up(TENANT, 500_000)
    for _ in range(2):
        next(topping)
    run_out(world.rebuild_one(TENANT))
    run_out(topping)
    assert world.model.strings[keys.balance_key(TENANT)] == "1500000"
    world.settle_down()


@pytest.mark.parametrize("dies_after", range(1, 5))
def test_dpp_57_a_top_up_that_dies_anywhere_is_spendable_after_the_replay(world: World, dies_after: int) -> None:
    topping = world.top_up(TENANT, 500_000)
    for _ in range(dies_after):
        next(topping, None)
    run_out(world.replay())
    run_out(world.replay())
    expected = 1_000_000 if dies_after == 1 else 1_500_000
    assert world.model.strings[keys.balance_key(TENANT)] == str(expected)
    world.settle_down()


def test_one_tenants_rebuild_leaves_the_others_open(world: World) -> None:
    rebuild = world.rebuild_one(TENANT)
    next(rebuild)
    assert not world.is_open(TENANT)
    assert world.is_open(OTHER)
    run_out(rebuild)
    assert world.is_open(TENANT)


@pytest.mark.parametrize("steps", range(1, 7))
def test_dpp_55_of_two_rebuilds_that_cross_the_older_snapshot_is_not_written(world: World, steps: int) -> None:
    """One of all lost its lock; meanwhile money came in, and its tenant was rebuilt alone."""
    reserved_run(world)
    older = world.rebuild()
    for _ in range(steps):
        next(older, None)
    run_out(world.top_up(TENANT, 500_000))
    run_out(world.rebuild_one(TENANT))
    run_out(older)
    world.laws_hold()
    world.settle_down()
    assert world.books.total_micros(TENANT) == 1_500_000 - 250_000 // 3


@pytest.mark.parametrize("steps", range(1, 5))
def test_dpp_55_a_tenants_rebuild_that_one_of_all_overtook_writes_nothing_more(world: World, steps: int) -> None:
    reserved_run(world)
    older = world.rebuild_one(TENANT)
    for _ in range(steps):
        next(older)
    run_out(world.rebuild())
    run_out(world.top_up(TENANT, 500_000))
    run_out(older)
    world.laws_hold()
    assert world.model.strings[keys.balance_key(TENANT)] == "1250000"
    world.settle_down()
