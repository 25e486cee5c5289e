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
