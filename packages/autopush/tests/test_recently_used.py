"""The bounded memory of what was used last."""

from autopush.recently_used import RecentlyUsed


def test_a_key_keeps_its_value_while_it_is_used() -> None:
    known = RecentlyUsed[int](10)
    known.recall("used", 7)
    for number in range(100):
        known.recall(number, number)
        if "used" not in known.newest:
            assert known.recall("used", 0) == 7
        assert len(known) <= 10


def test_the_last_keys_are_known_up_to_half_of_all() -> None:
    known = RecentlyUsed[int](10)
    for number in range(100):
        known.recall(number, number)
    assert all(number in known.newest or known.recall(number, -1) >= 0 for number in range(96, 100))


def test_a_key_not_used_for_long_begins_with_the_default() -> None:
    known = RecentlyUsed[int](10)
    known.recall("old", 7)
    for number in range(10):
        known.recall(number, number)
    assert known.recall("old", 0) == 0


def test_a_key_that_is_found_is_used_and_one_that_is_not_known_takes_no_place() -> None:
    known = RecentlyUsed[int](10)
    known.recall("used", 7)
    for number in range(100):
        known.recall(number, number)
        assert known.find("used") == 7
        assert known.find("unknown") is None
        assert len(known) <= 10
    assert "unknown" not in known.newest


def test_a_forgotten_key_is_not_found_whether_it_is_old_or_new() -> None:
    known = RecentlyUsed[int](10)
    for number in range(8):
        known.recall(number, number)
    assert 0 not in known.newest
    for number in (0, 7, 99):
        known.forget(number)
        assert known.find(number) is None
    assert [known.find(number) for number in (1, 6)] == [1, 6]


def test_a_value_that_is_kept_replaces_the_old_one_and_counts_as_used() -> None:
    known = RecentlyUsed[int](10)
    known.keep("a", 1)
    for number in range(100):
        known.keep("a", number)
        known.keep(number, number)
    assert known.find("a") == 99
    assert len(known) <= 10


def test_all_that_is_cached_can_be_listed() -> None:
    known = RecentlyUsed[int](4)
    for number in (1, 2, 3):
        known.keep(number, -number)
    assert dict(known.items()) == {1: -1, 2: -2, 3: -3}
