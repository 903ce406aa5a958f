"""Which orders of several actors are played: of those that differ only in effects that commute, one.

Two effects of different actors commute when neither writes what the other touches: two reads, or effects over different
keys. Orders that become each other by changing such neighbours show every actor the same and end the same, so where one
has been, the others go on alike. A place is what has happened up to that: of each actor its last effect, and an effect
is told by its actor's effect before it and by those that it follows over what it touches.

A place that is reached again with as many preemptions, or more, is not gone on from: whatever could be done from there,
has been. That holds under the bound as well, for what may follow depends on three things alone: the place, who went
last, and how many preemptions are left; and who went last is worth one preemption at most.

The search looks at itself. A place that is met twice must go on by the same effects, or something was touched that no
effect told of; and `orders`, which counts every order within the bound from the places, fails where one was not
reached.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

Place = tuple[tuple[int, int], ...]
"""Of each actor that has moved its number and the name of its last effect."""


@dataclass(frozen=True, slots=True)
class Effect:
    what: str
    reads: frozenset[str]
    writes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Step:
    """Who stood before which effect, and who went on."""

    before: Mapping[int, Effect]
    chosen: int

    @property
    def effect(self) -> str:
        return self.before[self.chosen].what

    def __repr__(self) -> str:
        return f"{self.chosen}: {self.effect}"


class _Past:
    """The effects of one play so far, each with a name that it has in every play."""

    def __init__(self, names: dict[object, int]) -> None:
        self._names = names
        self._last: dict[int, int] = {}
        self._written: dict[str, int] = {}
        self._read: dict[str, frozenset[int]] = {}

    def place(self) -> Place:
        return tuple(sorted(self._last.items()))

    def place_after(self, actor: int, effect: Effect) -> Place:
        return tuple(sorted((self._last | {actor: self._name(actor, effect)}).items()))

    def add(self, actor: int, effect: Effect) -> None:
        name = self._name(actor, effect)
        self._last[actor] = name
        for touched in effect.reads - effect.writes:
            self._read[touched] = self._read.get(touched, frozenset()) | {name}
        for touched in effect.writes:
            self._written[touched] = name
            self._read[touched] = frozenset()

    def _name(self, actor: int, effect: Effect) -> int:
        """Keys have other names in each play, so they are told by what has happened to them."""
        follows = frozenset(
            (self._written.get(touched), self._read.get(touched, frozenset()) if touched in effect.writes else None)
            for touched in effect.reads | effect.writes
        )
        told = (actor, self._last.get(actor), effect.what, follows)
        return self._names.setdefault(told, len(self._names))


class Search:
    """Every order that leaves an actor which could have gone on at most so many times, or one that shows the same."""

    def __init__(self, play: Callable[[Sequence[int]], list[Step]], *, preemptions: int) -> None:
        self._play = play
        self._most = preemptions
        self._names: dict[object, int] = {}
        self._cost: dict[tuple[Place, int | None], int] = {}
        self._least_cost: dict[Place, int] = {}
        self._onward: dict[Place, dict[int, Place]] = {}
        self._to_play: list[list[tuple[tuple[int, ...], Place]]] = [[] for _ in range(preemptions + 1)]

    def plays(self) -> Iterator[list[Step]]:
        """Those with few preemptions first: then no place is reached for less later on."""
        self._to_play[0].append(((), ()))
        for preempted, to_play in enumerate(self._to_play):
            while to_play:
                prefix, place = to_play.pop()
                last = prefix[-1] if prefix else None
                if prefix and self._cost[place, last] < preempted:
                    continue  # it was reached for less meanwhile
                steps = self._play(prefix)
                self._look(steps, len(prefix), preempted)
                yield steps

    def orders(self) -> int:
        """How many there are within the bound; each shows the same as one that was played."""

        @cache
        def from_here(place: Place, last: int | None, preempted: int) -> int:
            onward = self._onward[place]
            costs = {other: preempted + _is_preempted(last, other, onward) for other in onward}
            within = [other for other in onward if costs[other] <= self._most]
            return sum(from_here(onward[other], other, costs[other]) for other in within) if onward else 1

        return from_here((), None, 0)

    def _look(self, steps: Sequence[Step], begin: int, preempted: int) -> None:
        """At the places that the play came by: what else may be done from there."""
        past, new = _Past(self._names), True
        for at, step in enumerate(steps):
            last = steps[at - 1].chosen if at else None
            onward = {actor: past.place_after(actor, effect) for actor, effect in step.before.items()}
            self._know(past.place(), onward, steps)
            if at >= begin and new:
                chosen = tuple(step.chosen for step in steps[:at])
                for other in onward.keys() - {step.chosen}:
                    cost = preempted + _is_preempted(last, other, onward)
                    if cost <= self._most and self._is_better(onward[other], other, cost):
                        self._to_play[cost].append(((*chosen, other), onward[other]))
                new = self._is_better(onward[step.chosen], step.chosen, preempted)
            past.add(step.chosen, step.before[step.chosen])
        self._know(past.place(), {}, steps)

    def _know(self, place: Place, onward: dict[int, Place], steps: Sequence[Step]) -> None:
        assert self._onward.setdefault(place, onward) == onward, ("what no effect told of made a difference", steps)

    def _is_better(self, place: Place, last: int, cost: int) -> bool:
        """Notes it."""
        least = self._least_cost.get(place, math.inf)
        if cost >= least + 1 or cost >= self._cost.get((place, last), math.inf):
            return False
        self._cost[place, last] = cost
        self._least_cost[place] = min(cost, int(least)) if least < math.inf else cost
        return True


def _is_preempted(last: int | None, other: int, onward: Mapping[int, Place]) -> bool:
    return last is not None and last != other and last in onward


def every_order(
    play: Callable[[Sequence[int]], list[Step]], *, preemptions: int, prefix: tuple[int, ...] = ()
) -> Iterator[list[Step]]:
    """Each within the bound, and none left out: what a search is compared with."""
    steps = play(prefix)
    yield steps
    chosen = tuple(step.chosen for step in steps)
    for at in range(len(prefix), len(steps)):
        for other in steps[at].before:
            branch = (*chosen[:at], other)
            if other != chosen[at] and _preemptions(steps, branch) <= preemptions:
                yield from every_order(play, preemptions=preemptions, prefix=branch)


def _preemptions(steps: Sequence[Step], choices: Sequence[int]) -> int:
    return sum(choices[at] != choices[at - 1] and choices[at - 1] in steps[at].before for at in range(1, len(choices)))
