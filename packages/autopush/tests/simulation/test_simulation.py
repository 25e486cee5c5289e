"""Several workers in virtual time, with faults from a seed: what was answered 201 is not lost.

A failing seed is run again as it was with `SIMULATE=SEED` in the environment of these tests.
"""

import os
from collections.abc import Sequence

import pytest

from support.simulation.bugs import PLANTED
from support.simulation.checker import violations
from support.simulation.world import World, undisturbed
from support.soak import slow_after, times

GROUP = 50
"""Seeds in one test."""
QUICK, SLOW, SOAKED = 1, 29, 20_000
"""Groups in `make test`, beyond them in `make slow`, and in all in `make soak`."""
SEARCHED = 500
"""Seeds in which a planted bug has to be found."""
SEARCHED_FROM = {
    "forgets-duplicates": 40,
    "takes-over-late": 50,
    "leaves-paused": 130,
    "ends-before-the-older": 200,
    "calls-siblings-that-end": 200,
}
"""The first of them, for bugs that few seeds show: the seeds before have shown nothing."""

chosen = os.environ.get("SIMULATE")
groups = slow_after(QUICK, range(times(QUICK + SLOW, SOAKED)))


def world_of(seed: int) -> World:
    """The run of a seed: which of the services it is, and all that happens in it."""
    return World(seed, workers=2 + seed % 2, store_first=seed % 3 != 2)


def wrong_in(seeds: Sequence[int]) -> dict[int, list[str]]:
    with undisturbed():
        return {seed: wrong for seed in seeds if (wrong := wrong_with(seed))}


def wrong_with(seed: int) -> list[str]:
    """Nothing keeps the world of the last seed, which is collected before complaints are heard."""
    world = world_of(seed)
    world.run()
    wrong = violations(world)
    return [*wrong, *world.history.faults] if wrong else []


@pytest.mark.parametrize("group", groups)
def test_nothing_accepted_is_lost_whatever_goes_wrong(group: int) -> None:
    seeds = [int(chosen)] if chosen else range(group * GROUP, (group + 1) * GROUP)
    assert not wrong_in(seeds)


def test_a_seed_gives_the_same_run_again() -> None:
    with undisturbed():
        assert run_of(4) == run_of(4)


def run_of(seed: int) -> tuple[object, ...]:
    history = world_of(seed).run()
    # Message ids differ: they are encrypted.
    return history.faults, list(history.delivered.values()), history.refused


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    first = SEARCHED_FROM.get(bug, 0)
    with PLANTED[bug]():
        assert any(wrong_in([seed]) for seed in range(first, first + SEARCHED))
