"""The queue in which keys take turns."""

from autopush.fair_queue import FairQueue


def drained(queue: FairQueue[str]) -> list[str]:
    return [queue.take() for _ in range(len(queue))]


def test_the_entries_of_one_key_are_served_in_order() -> None:
    queue = FairQueue[str](10)
    for entry in "abc":
        assert queue.add("key", entry)
    assert drained(queue) == ["a", "b", "c"]


def test_keys_take_turns() -> None:
    queue = FairQueue[str](100)
    for number in range(5):
        queue.add("flood", f"flood {number}")
    queue.add("one", "one")
    queue.add("two", "two")
    assert drained(queue)[:3] == ["flood 0", "one", "two"]


def test_a_key_that_comes_back_waits_behind_the_others() -> None:
    queue = FairQueue[str](10)
    queue.add("a", "a1")
    queue.add("a", "a2")
    queue.add("b", "b1")
    assert queue.take() == "a1"
    queue.add("c", "c1")
    assert drained(queue) == ["b1", "a2", "c1"]


def test_a_full_queue_takes_nothing_more() -> None:
    queue = FairQueue[str](2)
    assert [queue.add(key, key) for key in "abc"] == [True, True, False]
    queue.take()
    assert queue.add("c", "c")


def test_one_key_may_have_only_so_many_entries() -> None:
    queue = FairQueue[str](10, max_of_key=1)
    assert [queue.add(key, key) for key in "aab"] == [True, False, True]
    assert drained(queue) == ["a", "b"]
    assert queue.add("a", "a")
