"""Each user has one of several workers."""

from collections import Counter
from typing import cast

import pytest

from autopush.delivery.placement import Placement
from autopush.store import PushStore
from autopush.store.push_store import UNUSED_UAID
from autopush.webpush.identifiers import new_uaid


class Engine:
    def __init__(self, parts: int) -> None:
        self.parts = parts

    def part_of(self, key: str) -> int:
        return int(key.removeprefix("key-"), 16) % self.parts


class Store:
    def __init__(self, parts: int) -> None:
        self.engine = Engine(parts)

    def storage_key(self, uaid: str) -> str:
        return f"key-{uaid}"


def placement(index: int, workers: int, parts: int = 1) -> Placement:
    return Placement(cast(PushStore, Store(parts)), index, workers)


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_each_worker_tests_the_part_of_the_store_that_it_has(parts: int) -> None:
    views = [placement(index, 3, parts) for index in range(3)]
    assert [view.owner(view.unused_uaid()) for view in views] == [0, 1, 2]
    assert placement(0, 1, parts).unused_uaid() == UNUSED_UAID


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_all_workers_agree_on_the_owner_and_all_have_some(parts: int) -> None:
    uaids = [new_uaid() for _ in range(300)]
    views = [placement(index, 3, parts) for index in range(3)]
    owners = [view.owner(uaids[0]) for view in views]
    assert len(set(owners)) == 1
    shares = Counter(views[0].owner(uaid) for uaid in uaids)
    assert set(shares) == {0, 1, 2}
    for uaid in uaids:
        assert [view.other_owner(uaid) for view in views].count(None) == 1


def test_the_owner_writes_the_part_with_the_rows_of_the_user() -> None:
    view = placement(0, 2, parts=4)
    assert [view.owner(f"{number:032x}") for number in range(4)] == [0, 1, 0, 1]


def test_with_fewer_parts_than_workers_all_workers_have_users() -> None:
    view = placement(0, 4, parts=2)
    assert {view.owner(new_uaid()) for _ in range(200)} == {0, 1, 2, 3}


def test_a_worker_makes_uaids_that_it_owns() -> None:
    for index in range(3):
        view = placement(index, 3)
        assert {view.other_owner(view.new_uaid()) for _ in range(20)} == {None}


def test_one_worker_owns_all() -> None:
    assert placement(0, 1).other_owner(new_uaid()) is None


def test_a_worker_of_a_version_that_ends_passes_nothing_on() -> None:
    view = placement(0, 3)
    view.own_all()
    assert {view.other_owner(new_uaid()) for _ in range(20)} == {None}
