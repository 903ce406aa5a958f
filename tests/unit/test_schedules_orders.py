"""Of orders that differ only in effects that commute one is played, and nothing is missed by that."""

import random
from collections.abc import Callable, Sequence

import pytest

from tests.gear.faults.orders import Effect, Search, Step, every_order

Act = tuple[str, str]
"""Reads or writes, and what."""
Programs = Sequence[Sequence[Act]]
CELLS = ("a", "b", "c")


class World:
    """What each actor has seen, and what stands in the end: all that an order can show."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self.cells: dict[str, tuple[object, ...]] = dict.fromkeys(CELLS, ())
        self.seen: list[tuple[object, ...]] = [() for _ in programs]
        self._next = [0] * len(programs)

    def before(self) -> dict[int, Effect]:
        """A write depends on what its actor has seen, and one that has seen another's first write does one act more."""
        ends = [len(acts) - (not self.seen[at]) for at, acts in enumerate(self._programs)]
        here = {at: acts[self._next[at]] for at, acts in enumerate(self._programs) if self._next[at] < ends[at]}
        return {at: effect_of(act) for at, act in here.items()}

    def go_on(self, actor: int) -> None:
        kind, cell = self._programs[actor][self._next[actor]]
        self._next[actor] += 1
        if kind == "read":
            self.seen[actor] += tuple(self.cells[cell])
        else:
            self.cells[cell] = (*self.cells[cell], actor, len(self.seen[actor]))

    def outcome(self) -> object:
        return tuple(self.cells.items()), tuple(self.seen)


def effect_of(act: Act) -> Effect:
    kind, cell = act
    touched = frozenset({cell})
    return Effect(kind, touched, frozenset()) if kind == "read" else Effect(kind, frozenset(), touched)


def played(programs: Programs, outcomes: list[object]) -> Callable[[Sequence[int]], list[Step]]:
    """As a stage plays."""

    def play(choices: Sequence[int]) -> list[Step]:
        world, steps = World(programs), list[Step]()
        while before := world.before():
            last = steps[-1].chosen if steps else min(before)
            chosen = choices[len(steps)] if len(steps) < len(choices) else last if last in before else min(before)
            steps.append(Step(before, chosen))
            world.go_on(chosen)
        outcomes.append(world.outcome())
        return steps

    return play


def some_programs(seed: int) -> Programs:
    dice = random.Random(seed)  # noqa: S311  a repeatable choice
    return [
        [(dice.choice(("read", "write")), dice.choice(CELLS)) for _ in range(dice.randint(1, 4))]
        for _ in range(dice.choice((2, 3, 3)))
    ]


@pytest.mark.parametrize("most", range(4))
def test_fewer_plays_show_whatever_every_order_shows(most: int) -> None:
    saved = 0
    for seed in range(60):
        whole: list[object] = []
        reduced: list[object] = []
        orders = sum(1 for _ in every_order(played(some_programs(seed), whole), preemptions=most))
        search = Search(played(some_programs(seed), reduced), preemptions=most)
        plays = sum(1 for _ in search.plays())
        assert set(reduced) == set(whole), seed
        assert search.orders() == orders, seed
        saved += orders - plays
    assert saved >= (0, 50, 500, 1_500)[most]


def test_an_effect_that_hides_what_it_writes_is_noticed() -> None:
    """The search relies on what effects tell: where one tells less, equal places go on differently."""
    programs = [[("write", "a"), ("write", "b")], [("read", "a"), ("write", "c")]]

    def play(choices: Sequence[int]) -> list[Step]:
        steps = played(programs, [])(choices)
        silent = Effect("write", frozenset(), frozenset())
        return [
            Step({at: silent if one.what == "write" else one for at, one in step.before.items()}, step.chosen)
            for step in steps
        ]

    with pytest.raises(AssertionError, match="what no effect told of"):
        list(Search(play, preemptions=3).plays())
