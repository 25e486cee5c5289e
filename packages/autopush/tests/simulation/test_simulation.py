"""Workers of a service, and nodes of a cluster, in virtual time, with faults from a seed: what was
answered 201 is not lost, and nobody who is connected waits for it longer than is said.

A failing seed is run again as it was with `SIMULATE=SEED` in the environment of these tests.
"""

import os
from collections.abc import Callable, Iterable

import pytest

from support.simulation.bugs import PLANTED, PLANTED_IN_CLUSTERS, planted
from support.simulation.checker import violations
from support.simulation.world import ClusterWorld, World, undisturbed
from support.soak import CI, SOAK, slow_after, times

GROUP, FEWER = 25, 10
"""Seeds in one test, and for a newcomer."""
QUICK, SLOW, SOAKED = 1, 29, 40_000
"""Groups in `make test`, beyond them in `make slow`, and in all in `make soak`."""
SEARCHED = 500
"""Seeds in which a planted bug has to be found."""
SEARCHED_FROM = {
    "forgets-duplicates": 40,
    "takes-over-late": 50,
    "leaves-paused": 130,
    "ends-before-the-older": 1500,
    "calls-siblings-that-end": 700,
}
"""The first of them, for bugs that few seeds show: the seeds before have shown nothing."""

chosen = os.environ.get("SIMULATE")
groups = slow_after(QUICK, range(times(QUICK + SLOW, SOAKED)))


def world_of(seed: int) -> World:
    """The run of a seed: which of the services it is, and all that happens in it."""
    return World(seed, workers=2 + seed % 2, store_first=seed % 3 != 2)


def cluster_of(seed: int) -> World:
    return ClusterWorld(seed, nodes=2 + seed % 2, store_first=seed % 3 != 2)


Make = Callable[[int], World]
EACH_WORLD = pytest.mark.parametrize("make", [world_of, cluster_of])


def wrong_in(seeds: Iterable[int], make: Make = world_of) -> dict[int, list[str]]:
    with undisturbed():
        return {seed: wrong for seed in seeds if (wrong := wrong_with(make(seed)))}


def wrong_with(world: World) -> list[str]:
    """Nothing keeps the world of the last seed, which is collected before complaints are heard."""
    world.run()
    wrong = violations(world)
    return [*wrong, *world.history.faults] if wrong else []


@EACH_WORLD
@pytest.mark.parametrize("group", groups)
def test_nothing_accepted_is_lost_whatever_goes_wrong(group: int, make: Make) -> None:
    number = GROUP if CI or SOAK else FEWER
    seeds = range(group * GROUP, group * GROUP + number)
    assert not wrong_in([int(chosen)] if chosen else seeds, make)


@EACH_WORLD
def test_a_seed_gives_the_same_run_again(make: Make) -> None:
    with undisturbed():
        assert run_of(make(4)) == run_of(make(4))


def run_of(world: World) -> tuple[object, ...]:
    history = world.run()
    # Message ids differ: they are encrypted.
    return history.faults, list(history.delivered.values()), history.refused


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    first = SEARCHED_FROM.get(bug, 0)
    with planted(PLANTED[bug]):
        assert any(wrong_in([seed]) for seed in range(first, first + SEARCHED))


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED_IN_CLUSTERS)
def test_a_bug_planted_in_a_cluster_is_found(bug: str) -> None:
    with planted(PLANTED_IN_CLUSTERS[bug]):
        assert any(wrong_in([seed], cluster_of) for seed in range(SEARCHED))
